import type { CallToolRequest, CallToolResult, Tool } from '@modelcontextprotocol/client';
import {
  AgentLoopError,
  type ArgumentChecker,
  messageOf,
  type ToolContext,
  type ToolResult,
  textOf,
} from '../core/contracts/index.ts';
import { onAbort } from '../core/streams/index.ts';
import { carrierFromContext } from '../observability/trace-carrier.ts';
import { askUser } from './ask-user.ts';
import { type Failure, toolError } from './call-failure.ts';
import { contentOf, withTexts } from './content-parts.ts';
import { type CallResult, isInputRequired, OpenCall } from './open-call.ts';
import { keptRound, QuestionRounds, type RoundParams } from './question-rounds.ts';
import { defaultIdleMs, noteRequest, type ServerLink } from './server-link.ts';
import { keptSignIn, SignInQuestions } from './sign-in/sign-in-questions.ts';

/** A tool at its server. */
interface ToolTarget {
  readonly tool: Tool;
  /** By the schema that the tool promises for its output. */
  readonly checkOutput: ArgumentChecker | undefined;
}

/** The questions of an attempt. */
interface Asking {
  readonly rounds: QuestionRounds;
  readonly signIns: SignInQuestions;
}

interface SendOptions {
  readonly call: OpenCall;
  readonly signal: AbortSignal;
  /** What was answered to the questions of the request before. */
  readonly params: RoundParams | undefined;
}

/** A server no longer accepts the state of a call that it asked within. */
class StaleState extends Error {
  readonly error: AgentLoopError;

  constructor(error: AgentLoopError) {
    super(error.message);
    this.error = error;
  }
}

const defaultTotalMs = 600_000;
const defaultHoldMs = 600_000;
/** Calls that wait for an answer of the user; beyond that the oldest is given up. */
const maxHeld = 100;

/**
 * The calls of one server's tools. An attempt that asks the user leaves its call open at the server, by its idempotency key; the next attempt
 * takes it up, so that the tool runs once where the answer comes in time, and in this process.
 */
export class ToolCalls {
  readonly #link: ServerLink;
  readonly #held = new Map<string, OpenCall>();

  constructor(link: ServerLink) {
    this.#link = link;
  }

  /**
   * One attempt. Rejects with the tool error, in words for the model, or with what `ask` throws. Before 2026-07-28 a question leaves the call
   * open; since then it ends the request, and the request is sent again with the answers, in any process.
   */
  async run(target: ToolTarget, context: ToolContext): Promise<ToolResult> {
    const { name, server } = this.#link;
    const rounds = new QuestionRounds({ name, server, sdk: await this.#link.sdk(), context });
    const signIns = new SignInQuestions({ link: this.#link, rounds });
    const signIn = keptSignIn(context.kept);
    const kept = keptRound(signIn ? signIn.round : context.kept);
    let params = kept && (await rounds.resume(kept));
    if (signIn) await signIns.resume(signIn);
    for (;;) {
      try {
        const answers = params;
        const result = await signIns.during(() =>
          this.#answered(target, context, { params: answers, rounds, signIns }),
        );
        if (!isInputRequired(result)) return await this.#resultOf(result, target, context);
        params = await rounds.answer(result);
      } catch (thrown) {
        if (!(thrown instanceof StaleState)) throw thrown;
        if (!rounds.restart()) throw thrown.error;
        params = undefined;
      }
    }
  }

  /** The answer of one request. */
  async #answered(
    target: ToolTarget,
    context: ToolContext,
    { params, ...asking }: Asking & Pick<SendOptions, 'params'>,
  ): Promise<CallResult> {
    const held = params ? undefined : this.#taken(context.idempotencyKey);
    const call = held ?? this.#start(target, context, params);
    if (!held) call.answered = asking.rounds.asked;
    const leave = () => call.leave({ kind: 'canceled', what: 'was left' });
    if (context.signal.aborted) leave();
    const stopListening = onAbort(context.signal, leave);
    call.attend(context);
    try {
      return await this.#attended(call, context, asking);
    } finally {
      call.attend(undefined);
      stopListening();
    }
  }

  /** Gives up all calls that wait for an answer. */
  close(): void {
    for (const call of this.#held.values()) call.leave({ kind: 'canceled', what: 'was closed' });
    this.#held.clear();
  }

  #taken(key: string): OpenCall | undefined {
    const call = this.#held.get(key);
    this.#held.delete(key);
    call?.release();
    return call;
  }

  #start(target: ToolTarget, context: ToolContext, params: RoundParams | undefined): OpenCall {
    const { timeoutMs: idleMs = defaultIdleMs, maxTimeMs: totalMs = defaultTotalMs } = this.#link.server;
    const send = (call: OpenCall, signal: AbortSignal) => this.#send(target, context, { call, signal, params });
    return new OpenCall({ idleMs, totalMs, send });
  }

  async #send(
    { tool }: ToolTarget,
    context: ToolContext,
    { call, signal, params: answers }: SendOptions,
  ): Promise<CallResult> {
    const params: CallToolRequest['params'] = {
      name: tool.name,
      arguments: argumentsOf(context.arguments),
      _meta: { 'millrace/idempotency-key': context.idempotencyKey, ...carrierFromContext(context.traceContext) },
    };
    for (let again = false; ; again = true) {
      // The way to the server has limits of its own.
      const connection = await call.outside(() => this.#link.connected());
      noteRequest(context.traceContext, { method: 'tools/call', link: this.#link, connection });
      try {
        const sent = connection.isModern ? { ...params, ...answers } : params;
        const result = await connection.callTool(sent, { call, signal, tool });
        return connection.isModern ? withCure(result) : result;
      } catch (thrown) {
        const signIn = this.#link.signInFor(thrown, connection);
        if (signIn) throw signIn;
        const found = call.left ?? this.#link.failureOf(thrown);
        const failure = connection.isModern ? { ...found, what: cured(found.what) } : found;
        this.#link.attendTo(failure, connection);
        // Nothing was done: the server does not know the session. One that we have not used before is not worth another try.
        if (failure.kind !== 'session-lost' || again || !connection.proven) throw this.#errorOf(failure, answers);
      }
    }
  }

  #errorOf(failure: Failure, answers: RoundParams | undefined): Error {
    const error = toolError(this.#link.name, failure, true);
    return failure.kind === 'stale-state' && answers ? new StaleState(error) : error;
  }

  /** The end of a call, with all that its server asks on the way answered. */
  async #attended(call: OpenCall, context: ToolContext, { rounds, signIns }: Asking): Promise<CallResult> {
    rounds.skipTo(call.answered);
    for (;;) {
      const step = await call.next();
      if (step.type === 'result') return step.result;
      if (step.type === 'failed') throw step.error;
      if (step.type === 'left') throw toolError(this.#link.name, step.failure, true);
      const { params, answer } = step.elicitation;
      try {
        const onAnswer = () => {
          call.answered++;
          rounds.noteAnswer();
        };
        answer(await askUser(params, { server: this.#link.name, context, kept: signIns.kept, onAnswer }));
      } catch (thrown) {
        this.#hold(call, context);
        throw thrown;
      }
    }
  }

  #hold(call: OpenCall, { idempotencyKey, signal }: ToolContext): void {
    if (signal.aborted) return;
    const { elicitation } = this.#link.server;
    const { holdMs = defaultHoldMs } = typeof elicitation === 'object' ? elicitation : {};
    const [oldest] = this.#held.keys();
    if (this.#held.size >= maxHeld && oldest !== undefined)
      this.#taken(oldest)?.leave({ kind: 'canceled', what: 'has too many calls that wait for answers' });
    this.#held.set(idempotencyKey, call);
    call.hold(holdMs, () => this.#held.delete(idempotencyKey));
  }

  async #resultOf(result: CallToolResult, target: ToolTarget, { call }: ToolContext): Promise<ToolResult> {
    const content = contentOf(result);
    if (result.isError === true) {
      const redacted = withTexts(content, (text) => this.#link.secrets.redact(text));
      const error = textOf(redacted) || 'the tool reports a failure';
      return {
        toolCallId: call.id,
        content: redacted === '' ? `Tool error: ${error}` : redacted,
        success: false,
        error,
      };
    }
    const flaw = await outputFlaw(result, target);
    if (flaw === undefined) return { toolCallId: call.id, content, success: true };
    throw new AgentLoopError('TOOL_FAILED', `the MCP server "${this.#link.name}" ${flaw}`);
  }
}

/** What the Python SDK says where a tool asks with `ctx.elicit`, by a request of its own, which revisions since 2026-07-28 do not have. */
const noWayToAsk = /no back-channel for server-initiated requests/;

function cured(text: string): string {
  if (!noWayToAsk.test(text)) return text;
  return `${text} The tool asks as revisions before 2026-07-28 do: set protocol: 'legacy' for this server in mcpTools.`;
}

function withCure(result: CallResult): CallResult {
  if (isInputRequired(result) || result.isError !== true) return result;
  const content = result.content.map((part) => (part.type === 'text' ? { ...part, text: cured(part.text) } : part));
  return { ...result, content };
}

function argumentsOf(given: unknown): Record<string, unknown> {
  return typeof given === 'object' && given !== null ? { ...given } : {};
}

/** A schema that cannot be compiled promises nothing that could be checked. */
async function outputFlaw(
  { structuredContent }: CallToolResult,
  { checkOutput, tool: { name } }: ToolTarget,
): Promise<string | undefined> {
  if (checkOutput === undefined) return undefined;
  if (structuredContent === undefined) return `gave no structured content, which "${name}" promises`;
  try {
    const checked = await checkOutput(structuredContent);
    return checked.ok ? undefined : `gave structured content that is not what "${name}" promises`;
  } catch (thrown) {
    if (AgentLoopError.isInstance(thrown) && thrown.code === 'INVALID_CONFIG') return undefined;
    return `gave structured content that cannot be checked: ${messageOf(thrown)}`;
  }
}
