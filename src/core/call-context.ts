import type { Context } from '@opentelemetry/api';
import type { Usage } from '../providers/interfaces.ts';
import type { AskOptions, AuthContext, ToolContext } from '../tools/interfaces.ts';
import type { AbortScope } from './abort-scope.ts';
import { addUsage } from './add-usage.ts';
import { asJson } from './check-answers.ts';
import { AgentLoopError } from './errors.ts';
import type { ToolCall } from './messages.ts';
import type { Question, ToolIntent } from './records.ts';
import { type GivenAnswer, nextQuestionId, noUsage } from './state.ts';
import { isUsage } from './told-usage.ts';
import type { TurnDeps } from './turn-deps.ts';

export interface ToolContextOptions {
  readonly started: {
    readonly callId: string;
    readonly call: ToolCall;
    readonly intent: ToolIntent | undefined;
    readonly answers: readonly GivenAnswer[];
  };
  readonly iteration: number;
  readonly scope: AbortScope;
  readonly traceContext: Context;
  readonly progress: (update: unknown) => void;
}

/** What a running call is told. Its signal is made when it is read. */
export class CallContext implements ToolContext {
  readonly taskId: string;
  readonly agentId: string;
  readonly contextId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly authContext: AuthContext | undefined;
  readonly iteration: number;
  readonly callId: string;
  readonly call: ToolCall;
  readonly arguments: unknown;
  readonly idempotencyKey: string;
  readonly attempt: number;
  readonly traceContext: Context;
  readonly progress: (update: unknown) => void;
  readonly #scope: AbortScope;
  readonly #answers: readonly GivenAnswer[];
  #questions = 0;
  #asked: Question | undefined;
  #usage: Usage | undefined;

  constructor({ turn, authContext }: TurnDeps, options: ToolContextOptions) {
    const { callId, call, intent, answers } = options.started;
    this.taskId = turn.taskId;
    this.agentId = turn.agentId;
    this.contextId = turn.contextId;
    this.metadata = turn.metadata;
    this.authContext = authContext;
    this.iteration = options.iteration;
    this.callId = callId;
    this.call = call;
    this.arguments = intent?.arguments;
    this.idempotencyKey = `${turn.taskId}:${callId}`;
    this.attempt = intent?.attempt ?? 1;
    this.traceContext = options.traceContext;
    this.progress = options.progress;
    this.#scope = options.scope;
    this.#answers = answers;
  }

  /** Made when it is read, so that a call which asks nothing costs nothing. */
  get ask(): (question: AskOptions) => unknown {
    return (question) => this.#ask(question);
  }

  get noteUsage(): (usage: Usage) => void {
    return (usage) => {
      if (isUsage(usage)) this.#usage = addUsage(this.#usage ?? noUsage, usage);
    };
  }

  /** What the tool told of its own model calls. */
  get usage(): Usage | undefined {
    return this.#usage;
  }

  /** What the tool asked and has no answer to. */
  get asked(): Question | undefined {
    return this.#asked;
  }

  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  #ask(asked: AskOptions): unknown {
    const { callId, call } = this;
    if (typeof asked !== 'object' || asked === null) {
      throw new AgentLoopError(
        'INVALID_INPUT',
        `Tool "${call.function.name}" asks with no question; give { prompt: "…" }.`,
      );
    }
    const { kind = 'input', prompt, data } = asked;
    if (!this.#asked) {
      const index = this.#questions++;
      const given = this.#answers.filter((each) => isTools(each.question))[index];
      if (given) return given.answer;
      const id = nextQuestionId({ callId, answers: this.#answers });
      const question = { id, callId, kind, toolName: call.function.name };
      checkQuestion(question, { prompt, data });
      this.#asked = {
        ...question,
        ...(prompt === undefined ? {} : { prompt }),
        ...(data === undefined ? {} : { data }),
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
  { prompt, data }: { readonly prompt: unknown; readonly data: unknown },
): void {
  const fail = (what: string) => {
    throw new AgentLoopError('INVALID_INPUT', `Tool "${question.toolName}" asks with ${what}.`);
  };
  if (!isTools(question)) fail(`the kind "${question.kind}"; use "input", "auth" or "client-tool"`);
  if (prompt !== undefined && typeof prompt !== 'string') fail('a prompt that is no text');
  if (data !== undefined && asJson(data) === undefined)
    fail('data that is not JSON; give text, numbers, lists or plain objects');
}
