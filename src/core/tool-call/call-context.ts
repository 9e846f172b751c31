import type { Context } from '@opentelemetry/api';
import {
  type AgentEvent,
  AgentLoopError,
  type AgentUsage,
  type AskOptions,
  type AuthContext,
  addUsage,
  asJson,
  type Message,
  noUsage,
  type ToolCall,
  type ToolContext,
  type Usage,
} from '../contracts/index.ts';
import {
  type GivenAnswer,
  type LoopState,
  nextQuestionId,
  type Question,
  type ToolIntent,
  type ToolResultRecord,
  taskAskedFor,
} from '../journal/index.ts';
import { isUsage } from '../model-call/usage.ts';
import { viewSince } from '../model-call/view.ts';
import { ParentTurn, parentTurn, recordedUsage } from '../ownership/child-turns.ts';
import type { AbortScope } from '../streams/index.ts';
import type { ToolCallDeps } from './tool-results.ts';

interface ToolContextOptions {
  readonly started: {
    readonly callId: string;
    readonly call: ToolCall;
    readonly intent: ToolIntent | undefined;
    readonly answers: readonly GivenAnswer[];
    readonly childUsage: readonly AgentUsage[];
  };
  readonly traceContext: Context;
  readonly owner: CallOwner;
}

/** The turn that a call belongs to. */
export interface CallTurn {
  /** As it is when it is read. */
  readonly state: LoopState;
}

/** The runner of a call. */
export interface CallOwner {
  progress(update: unknown): void;
  /** Shows an event of the call's child turn. */
  show(event: AgentEvent, childAgentId: string): void;
  readonly turn: CallTurn;
  /** Of this call alone; aborted when it shall stop. Made when it is read. */
  readonly scope: AbortScope;
}

/** The context of a running call. Its signal is created on access. */
export class CallContext implements ToolContext {
  readonly taskId: string;
  readonly agentId: string;
  readonly contextId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly authContext: AuthContext | undefined;
  readonly context: unknown;
  readonly iteration: number;
  readonly callId: string;
  readonly call: ToolCall;
  readonly arguments: unknown;
  readonly idempotencyKey: string;
  readonly attempt: number;
  readonly traceContext: Context;
  readonly #deps: ToolCallDeps;
  readonly #options: ToolContextOptions;
  #parent: ParentTurn | undefined;
  readonly #answers: readonly GivenAnswer[];
  #questions = 0;
  #asked: Question | undefined;
  #private: unknown;
  #usage: Usage | undefined;

  constructor(deps: ToolCallDeps, options: ToolContextOptions) {
    const { turn, authContext, context } = deps;
    this.#deps = deps;
    this.#options = options;
    const { callId, call, intent, answers } = options.started;
    this.taskId = turn.taskId;
    this.agentId = turn.agentId;
    this.contextId = turn.contextId;
    this.metadata = turn.metadata;
    this.authContext = authContext;
    this.context = context;
    this.iteration = options.owner.turn.state.iteration;
    this.callId = callId;
    this.call = call;
    this.arguments = intent?.arguments;
    this.idempotencyKey = turn.retried?.keys[callId] ?? `${turn.taskId}:${callId}`;
    this.attempt = intent?.attempt ?? 1;
    this.traceContext = options.traceContext;
    this.#answers = answers;
  }

  get messages(): readonly Message[] {
    return this.#options.owner.turn.state.messages;
  }

  /** Made when it is read, so that a call which asks nothing costs nothing. */
  get ask(): (question: AskOptions) => unknown {
    return (question) => this.#ask(question);
  }

  get kept(): unknown {
    return this.#answers.filter((each) => isTools(each.question)).at(-1)?.kept;
  }

  get progress(): (update: unknown) => void {
    return (update) => this.#options.owner.progress(update);
  }

  get noteUsage(): (usage: Usage) => void {
    return (usage) => {
      if (isUsage(usage)) this.#usage = addUsage(this.#usage ?? noUsage, usage);
    };
  }

  /** What a child turn of the call takes from this turn. */
  get [parentTurn](): ParentTurn {
    const { callId, agentId } = this;
    const { started, owner } = this.#options;
    const show = (event: AgentEvent, childAgentId: string) => owner.show(event, childAgentId);
    const view = () => viewSince(this.#deps.hooks.lastCall, owner.turn.state);
    const { scope } = owner;
    this.#parent ??= new ParentTurn(this.#deps, { callId, agentId, scope, recorded: started.childUsage, show, view });
    return this.#parent;
  }

  /** As `parentTurn`, where the call has read it. */
  get parentTurn(): ParentTurn | undefined {
    return this.#parent;
  }

  /** What model calls of the tool's own and of its child turn used, for the record of its result or its question. */
  get usage(): Pick<ToolResultRecord, 'usage' | 'usageBy'> | undefined {
    const below = this.#parent?.usageBy ?? [];
    return this.#usage || below.length > 0 ? recordedUsage(this.#usage, below) : undefined;
  }

  /** What the tool asked and has no answer to. */
  get asked(): Question | undefined {
    return this.#asked;
  }

  /** What the tool keeps for itself with that question, for its record. */
  get private(): { readonly private?: unknown } {
    return this.#private === undefined ? {} : { private: this.#private };
  }

  get signal(): AbortSignal {
    return this.#options.owner.scope.signal;
  }

  #ask(asked: AskOptions): unknown {
    const { callId, call } = this;
    if (typeof asked !== 'object' || asked === null) {
      throw new AgentLoopError(
        'INVALID_INPUT',
        `Tool "${call.function.name}" asks with no question; give { prompt: "…" }.`,
      );
    }
    const { kind = 'input', prompt, data, private: kept } = asked;
    if (!this.#asked) {
      const index = this.#questions++;
      const given = this.#answers.filter((each) => isTools(each.question))[index];
      if (given) return given.answer;
      const id = nextQuestionId({ callId, answers: this.#answers });
      const question = { id, callId, kind, toolName: call.function.name };
      checkQuestion(question, { prompt, data, kept });
      this.#private = kept;
      const child = taskAskedFor(asked, this.#options.started.intent?.child);
      this.#asked = {
        ...question,
        ...(prompt === undefined ? {} : { prompt }),
        ...(data === undefined ? {} : { data }),
        ...(child && { child }),
      };
    }
    throw new AgentLoopError(
      'INVALID_INPUT',
      `Call "${callId}" waits for an answer; it runs again once that is given.`,
    );
  }
}

/** Whether a question was asked by the tool itself. */
function isTools({ kind }: Question): boolean {
  return kind === 'input' || kind === 'auth' || kind === 'client-tool';
}

function checkQuestion(
  question: Question,
  { prompt, data, kept }: { readonly prompt: unknown; readonly data: unknown; readonly kept: unknown },
): void {
  const fail = (what: string) => {
    throw new AgentLoopError('INVALID_INPUT', `Tool "${question.toolName}" asks with ${what}.`);
  };
  if (!isTools(question)) fail(`the kind "${question.kind}"; use "input", "auth" or "client-tool"`);
  if (prompt !== undefined && typeof prompt !== 'string') fail('a prompt that is not a string');
  if (data !== undefined && asJson(data) === undefined)
    fail('data that is not JSON; give text, numbers, lists or plain objects');
  if (kept !== undefined && asJson(kept) === undefined)
    fail('a private value that is not JSON; give text, numbers, lists or plain objects');
}
