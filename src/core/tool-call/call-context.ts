import type { Context } from '@opentelemetry/api';
import {
  type AgentEvent,
  AgentLoopError,
  type AgentUsage,
  AskedTask,
  type AskOptions,
  type AuthContext,
  addUsage,
  givenJson,
  type Message,
  maxJsonDepth,
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
import { ParentTurn, recordedUsage } from '../ownership/child-turns.ts';
import type { AbortScope } from '../streams/index.ts';
import type { ToolCallDeps } from './tool-results.ts';

/** The turn that a call belongs to. */
export interface CallTurn {
  /** The current state. */
  readonly state: LoopState;
}

/** What the context of a call uses of the code that runs it. */
export interface CallRunner {
  readonly started: {
    readonly callId: string;
    readonly call: ToolCall;
    readonly intent: ToolIntent | undefined;
    readonly answers: readonly GivenAnswer[];
    readonly childUsage: readonly AgentUsage[];
  };
  readonly turn: CallTurn;
  /** The scope of this call, aborted when it shall stop. Created on access. */
  readonly scope: AbortScope;
  /** Created when the tool does something that is recorded with its result or question. */
  notes: CallNotes | undefined;
  progress(update: unknown): void;
  /** Emits an event of the call's child turn. */
  show(event: AgentEvent, childAgentId: string): void;
}

/** What a tool did through its context that is recorded with its result or question. */
export class CallNotes {
  /** The number of questions it asked. */
  questions = 0;
  /** Its question without an answer. */
  asked: Question | undefined;
  /** The `private` value of that question. */
  kept: unknown;
  /** The usage that the tool reported (`noteUsage`). */
  used: Usage | undefined;
  /** What the call's child turn receives from this turn. */
  parent: ParentTurn | undefined;

  /** The usage of the tool and of its child turns. */
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
  readonly #owner: CallRunner;

  constructor(deps: ToolCallDeps, owner: CallRunner, traceContext: Context) {
    const { turn, authContext, context } = deps.segment;
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
    this.traceContext = traceContext;
  }

  get messages(): readonly Message[] {
    return this.#owner.turn.state.messages;
  }

  /** Created on access: most calls ask nothing. */
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

  /** What the call's child turn receives from this turn. */
  get parentTurn(): ParentTurn {
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

  /** The answers to the tool's own questions, in order. */
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
    const { kind = 'input', prompt, data, private: kept, task } = asked;
    const notes = this.#notes;
    if (!notes.asked) {
      const given = this.#answers[notes.questions++];
      if (given) return given.answer;
      const question = { id: nextQuestionId({ callId, answers }), callId, kind, toolName: call.function.name };
      checkQuestion(question, { prompt, data, kept, task });
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
      `Call "${callId}" waits for an answer; its tool runs again once it is answered.`,
    );
  }
}

/** Whether the tool itself asked the question. */
function isTools({ kind }: Question): boolean {
  return kind === 'input' || kind === 'auth' || kind === 'client-tool';
}

function checkQuestion(
  question: Question,
  { prompt, data, kept, task }: Readonly<Record<'prompt' | 'data' | 'kept' | 'task', unknown>>,
): void {
  const fail = (what: string) => {
    throw new AgentLoopError('INVALID_INPUT', `Tool "${question.toolName}" asks with ${what}.`);
  };
  if (!isTools(question)) fail(`the kind "${question.kind}"; use "input", "auth" or "client-tool"`);
  if (prompt !== undefined && typeof prompt !== 'string') fail('a prompt that is not a string');
  if (task !== undefined && !AskedTask.isInstance(task)) fail('a task that is no AskedTask; leave it out');
  if (data !== undefined && givenJson(data) === undefined)
    fail(`data that is not JSON of at most ${maxJsonDepth} levels; pass strings, numbers, arrays or plain objects`);
  if (kept !== undefined && givenJson(kept) === undefined)
    fail(
      `a private value that is not JSON of at most ${maxJsonDepth} levels; pass strings, numbers, arrays or plain objects`,
    );
}
