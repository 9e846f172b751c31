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

/** The turn that a call belongs to. */
export interface CallTurn {
  /** As it is when it is read. */
  readonly state: LoopState;
}

/** The runner of a call. */
export interface CallOwner {
  readonly started: {
    readonly callId: string;
    readonly call: ToolCall;
    readonly intent: ToolIntent | undefined;
    readonly answers: readonly GivenAnswer[];
    readonly childUsage: readonly AgentUsage[];
  };
  readonly traceContext: Context;
  readonly turn: CallTurn;
  /** Of this call alone; aborted when it shall stop. Made when it is read. */
  readonly scope: AbortScope;
  /** Made where the tool does something that its record has to say. */
  notes: CallNotes | undefined;
  progress(update: unknown): void;
  /** Shows an event of the call's child turn. */
  show(event: AgentEvent, childAgentId: string): void;
}

/** What a tool did with its context that its record has to say. */
export class CallNotes {
  /** How many questions it asked. */
  questions = 0;
  /** What the tool asked and has no answer to. */
  asked: Question | undefined;
  /** What it keeps for itself with that question. */
  kept: unknown;
  /** What model calls of its own used. */
  used: Usage | undefined;
  /** What a child turn of the call takes from this turn. */
  parent: ParentTurn | undefined;

  /** What model calls of the tool's own and of its child turn used, for the record of its result or its question. */
  get usage(): Pick<ToolResultRecord, 'usage' | 'usageBy'> | undefined {
    const below = this.parent?.usageBy ?? [];
    return this.used || below.length > 0 ? recordedUsage(this.used, below) : undefined;
  }
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
  readonly #owner: CallOwner;

  constructor(deps: ToolCallDeps, owner: CallOwner) {
    const { turn, authContext, context } = deps;
    const { callId, call, intent } = owner.started;
    this.#deps = deps;
    this.#owner = owner;
    this.taskId = turn.taskId;
    this.agentId = turn.agentId;
    this.contextId = turn.contextId;
    this.metadata = turn.metadata;
    this.authContext = authContext;
    this.context = context;
    this.iteration = owner.turn.state.iteration;
    this.callId = callId;
    this.call = call;
    this.arguments = intent?.arguments;
    this.idempotencyKey = turn.retried?.keys[callId] ?? `${turn.taskId}:${callId}`;
    this.attempt = intent?.attempt ?? 1;
    this.traceContext = owner.traceContext;
  }

  get messages(): readonly Message[] {
    return this.#owner.turn.state.messages;
  }

  /** Made when it is read, so that a call which asks nothing costs nothing. */
  get ask(): (question: AskOptions) => unknown {
    return (question) => this.#ask(question);
  }

  get kept(): unknown {
    return this.#answers.at(-1)?.kept;
  }

  get progress(): (update: unknown) => void {
    return (update) => this.#owner.progress(update);
  }

  get noteUsage(): (usage: Usage) => void {
    return (usage) => {
      if (!isUsage(usage)) return;
      const notes = this.#notes;
      notes.used = addUsage(notes.used ?? noUsage, usage);
    };
  }

  /** What a child turn of the call takes from this turn. */
  get [parentTurn](): ParentTurn {
    const { callId, agentId } = this;
    const owner = this.#owner;
    const notes = this.#notes;
    notes.parent ??= new ParentTurn(this.#deps, {
      callId,
      agentId,
      scope: owner.scope,
      recorded: owner.started.childUsage,
      show: (event, childAgentId) => owner.show(event, childAgentId),
      view: () => viewSince(this.#deps.hooks.lastCall, owner.turn.state),
    });
    return notes.parent;
  }

  get signal(): AbortSignal {
    return this.#owner.scope.signal;
  }

  get #notes(): CallNotes {
    this.#owner.notes ??= new CallNotes();
    return this.#owner.notes;
  }

  /** Of questions of the tool itself. */
  get #answers(): readonly GivenAnswer[] {
    return this.#owner.started.answers.filter(({ question }) => isTools(question));
  }

  #ask(asked: AskOptions): unknown {
    const { callId, call } = this;
    const { answers, intent } = this.#owner.started;
    if (typeof asked !== 'object' || asked === null) {
      throw new AgentLoopError(
        'INVALID_INPUT',
        `Tool "${call.function.name}" called ask without a question; pass { prompt: "…" }.`,
      );
    }
    const { kind = 'input', prompt, data, private: kept } = asked;
    const notes = this.#notes;
    if (!notes.asked) {
      const given = this.#answers[notes.questions++];
      if (given) return given.answer;
      const question = { id: nextQuestionId({ callId, answers }), callId, kind, toolName: call.function.name };
      checkQuestion(question, { prompt, data, kept });
      notes.kept = kept;
      const child = taskAskedFor(asked, intent?.child);
      notes.asked = {
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
    fail('data that is not JSON; pass strings, numbers, arrays or plain objects');
  if (kept !== undefined && asJson(kept) === undefined)
    fail('a private value that is not JSON; pass strings, numbers, arrays or plain objects');
}
