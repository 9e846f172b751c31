import { pathToFileURL } from 'node:url';
import type {
  CreateMessageResult,
  ElicitRequest,
  ElicitResult,
  InputRequiredResult,
  ListRootsResult,
} from '@modelcontextprotocol/client';
import { AgentLoopError, type AskOptions, stableJson, type ToolContext } from '../core/contracts/index.ts';
import { askUser } from './ask-user.ts';
import type { ClientSdk } from './load-sdk.ts';
import type { McpServerOptions } from './mcp-options.ts';
import { answerSampling, type SamplingCall } from './sampling.ts';

/** What a call that is sent again has beside its arguments. */
export interface RoundParams {
  readonly inputResponses: Readonly<Record<string, InputResponse>>;
  /** As the server gave it. */
  readonly requestState?: string;
}

type InputResponse = ElicitResult | CreateMessageResult | ListRootsResult;

/** An answer of the user, and what it was given for. */
interface GivenResponse {
  readonly key: string;
  readonly request: unknown;
  readonly response: ElicitResult;
}

/** A round as it is journaled beside each of its questions, for the attempt that gets the answer, maybe in another process. */
interface Round {
  /** From 1. */
  readonly round: number;
  readonly requests: Readonly<Record<string, unknown>>;
  readonly state?: string;
  /** How many questions of the call were answered before it. */
  readonly before: number;
  /** The answers of the rounds before it. */
  readonly given: readonly GivenResponse[];
  /** Answers from before the call was started anew, for equal questions. */
  readonly reusable: readonly GivenResponse[];
  readonly restarted: boolean;
  readonly sampled: number;
}

interface QuestionRoundsOptions {
  /** The server's. */
  readonly name: string;
  readonly server: McpServerOptions;
  readonly sdk: ClientSdk;
  readonly context: ToolContext;
}

const maxRounds = 10;

/**
 * The questions of one call to a server of 2026-07-28, which ends a request where it has to know something and gets the call again with the
 * answers, in rounds. A question to the user suspends the turn; the round is journaled with it, so that the attempt which has the answer
 * sends the second request and not the first one again.
 */
export class QuestionRounds {
  readonly #options: QuestionRoundsOptions;
  readonly #sampling: SamplingCall;
  /** The round that is answered, with its answers to come. */
  current: Round | undefined;
  #round = 0;
  #asked = 0;
  #given: readonly GivenResponse[] = [];
  #reusable: readonly GivenResponse[] = [];
  #restarted = false;

  constructor(options: QuestionRoundsOptions) {
    this.#options = options;
    this.#sampling = { sampled: 0, context: options.context, outside: (work) => work() };
  }

  /** Continues with a round that an attempt before has asked within. Throws where a question of it is open, as `ask` does. */
  resume(kept: Round): Promise<RoundParams> {
    this.skipTo(kept.before);
    this.#round = kept.round;
    this.#given = kept.given;
    this.#restarted = kept.restarted;
    this.#sampling.sampled = kept.sampled;
    return this.#fulfil(kept);
  }

  /** How many questions of the call were answered in this attempt, of the server and of the sign-in. */
  get asked(): number {
    return this.#asked;
  }

  /** Another question of the call. Throws where it is open. */
  ask(question: AskOptions): unknown {
    const answer = this.#options.context.ask(question);
    this.#asked++;
    return answer;
  }

  /** A question of the call was answered elsewhere. */
  noteAnswer(): void {
    this.#asked++;
  }

  /** Passes over answers that attempts before have used. */
  skipTo(asked: number): void {
    while (this.#asked < asked) this.ask({ prompt: 'asked before' });
  }

  /** Answers what a server has to know. Throws where the user has to be asked, as `ask` does. */
  answer({ inputRequests = {}, requestState }: InputRequiredResult): Promise<RoundParams> {
    this.#round++;
    if (this.#round > maxRounds) throw this.#failed(`asked in more than ${maxRounds} rounds`);
    return this.#fulfil({
      round: this.#round,
      requests: inputRequests,
      ...(requestState !== undefined && { state: requestState }),
      before: this.#asked,
      given: this.#given,
      reusable: this.#reusable,
      restarted: this.#restarted,
      sampled: this.#sampling.sampled,
    });
  }

  /** The server does not accept its state any more: the call starts anew, once. Equal questions are not asked again. */
  restart(): boolean {
    if (this.#restarted) return false;
    this.#restarted = true;
    this.#reusable = this.#given;
    this.#given = [];
    this.#round = 0;
    this.current = undefined;
    return true;
  }

  /** The user first: what the model says to a question of the same round would be lost where the attempt ends. */
  async #fulfil(round: Round): Promise<RoundParams> {
    this.current = round;
    const inputResponses: Record<string, InputResponse> = {};
    const reusable = [...round.reusable];
    const given = [...round.given];
    const requests = Object.entries(round.requests);
    for (const [key, request] of requests) {
      const params = this.#elicitationIn(request);
      if (!params) continue;
      const known = reusable.findIndex((each) => each.key === key && stableJson(each.request) === stableJson(request));
      const [reused] = known === -1 ? [] : reusable.splice(known, 1);
      const response = reused?.response ?? (await this.#ask(params, round));
      inputResponses[key] = response;
      given.push({ key, request, response });
    }
    for (const [key, request] of requests) inputResponses[key] ??= await this.#otherAnswer(request);
    this.#given = given;
    this.#reusable = reusable;
    return { inputResponses, ...(round.state !== undefined && { requestState: round.state }) };
  }

  #ask(params: ElicitRequest['params'], kept: Round): Promise<ElicitResult> {
    const { name: server, context } = this.#options;
    const onAnswer = () => {
      this.#asked++;
    };
    return askUser(params, { server, context, kept, onAnswer });
  }

  #elicitationIn(request: unknown): ElicitRequest['params'] | undefined {
    if (methodOf(request) !== 'elicitation/create') return undefined;
    const { server, sdk } = this.#options;
    if (server.elicitation === false) throw this.#failed('asks the user, which it may not');
    const params = paramsOf(request);
    const { message, url, mode } = { message: undefined, url: undefined, mode: undefined, ...params };
    if (mode === 'url' && typeof message === 'string' && typeof url === 'string')
      return { mode: 'url', message, url, elicitationId: '' };
    const form = sdk.specTypeSchemas.ElicitRequestFormParams['~standard'].validate(params);
    if (form.issues) throw this.#failed('asks what the protocol does not allow');
    return form.value;
  }

  async #otherAnswer(request: unknown): Promise<InputResponse> {
    const { server, sdk, context } = this.#options;
    const method = methodOf(request);
    if (method === 'roots/list' && server.roots) return rootsOf(server.roots);
    if (method !== 'sampling/createMessage' || !server.sampling)
      throw this.#failed(`wants ${String(method)}, which this client does not offer`);
    const params = sdk.specTypeSchemas.CreateMessageRequestParams['~standard'].validate(paramsOf(request));
    if (params.issues) throw this.#failed('asks what the protocol does not allow');
    try {
      const { signal } = context;
      return await answerSampling(params.value, { sdk, sampling: server.sampling, call: this.#sampling, signal });
    } catch (thrown) {
      if (thrown instanceof sdk.ProtocolError) throw this.#failed(`asked the model in vain: ${thrown.message}`);
      throw thrown;
    }
  }

  #failed(what: string): AgentLoopError {
    return new AgentLoopError('TOOL_FAILED', `the MCP server "${this.#options.name}" ${what}`);
  }
}

/** What `context.kept` holds of a round; undefined where it is none. */
export function keptRound(kept: unknown): Round | undefined {
  return isRound(kept) ? kept : undefined;
}

function isRound(kept: unknown): kept is Round {
  if (typeof kept !== 'object' || kept === null) return false;
  return ['round', 'requests', 'before', 'given', 'reusable', 'restarted', 'sampled'].every((name) => name in kept);
}

/** Folders, or `file:` URLs, as the protocol has them. */
export function rootsOf(roots: readonly string[]): ListRootsResult {
  return { roots: roots.map((root) => ({ uri: root.startsWith('file:') ? root : pathToFileURL(root).href })) };
}

function methodOf(request: unknown): unknown {
  return typeof request === 'object' && request !== null ? Reflect.get(request, 'method') : undefined;
}

function paramsOf(request: unknown): object {
  const params: unknown = typeof request === 'object' && request !== null ? Reflect.get(request, 'params') : undefined;
  return typeof params === 'object' && params !== null ? params : {};
}
