import {
  type ApprovalRequest,
  type CallSettings,
  copySettings,
  type Extension,
  type FailedCall,
  type HookAnswer,
  type IterationStep,
  type IterationView,
  type LLMCallParams,
  type LLMProvider,
  type LLMResponse,
  type StepCall,
  type StepResult,
  type ToolCall,
  type ToolCallOutcome,
  type ToolCallRequest,
  type ToolDefinition,
  type TurnEnd,
  type TurnFinish,
  textOf,
} from '../contracts/index.ts';
import {
  callSettings,
  type Finish,
  type LoopState,
  type PendingToolCall,
  type ToolResultRecord,
  type TurnDone,
  type TurnOutcome,
} from '../journal/index.ts';
import type { OfferedTool } from '../tool-call/tool-set.ts';
import { AskedHook, type HookQuestion } from './hook-context.ts';
import type { AnswerOf, AskedHookName } from './hook-table.ts';

/** A model call before it is made, with the changes of earlier extensions. */
interface CallToMake {
  readonly params: LLMCallParams;
  /** The provider that an earlier extension chose. */
  readonly provider: LLMProvider | undefined;
}

/** A model call that is about to be made. */
class AskedModelCall extends AskedHook {
  readonly #chosen: LLMProvider | undefined;

  constructor(question: HookQuestion, extension: Extension, chosen: LLMProvider | undefined) {
    super(question, extension);
    this.#chosen = chosen;
  }

  /** The choice of earlier extensions counts, so that several can wrap one call. */
  override get provider(): LLMProvider {
    return this.#chosen ?? super.provider;
  }
}

interface CallInQuestion {
  readonly pending: Pick<PendingToolCall, 'callId' | 'call'>;
  readonly tool: OfferedTool;
  readonly arguments: unknown;
}

/** A call that is about to run. */
class AskedCall extends AskedHook implements ToolCallRequest {
  readonly callId: string;
  readonly call: ToolCall;
  readonly tool: ToolDefinition;
  readonly arguments: unknown;

  constructor(question: HookQuestion, extension: Extension, { pending, tool, arguments: args }: CallInQuestion) {
    super(question, extension);
    this.callId = pending.callId;
    this.call = pending.call;
    this.tool = tool.definition;
    this.arguments = args;
  }
}

/** A call that needs a decision before it runs. */
class AskedApproval extends AskedHook implements ApprovalRequest {
  readonly callId: string;
  readonly call: ToolCall;
  readonly arguments: unknown;

  constructor(question: HookQuestion, extension: Extension, { pending, arguments: args }: CallInQuestion) {
    super(question, extension);
    this.callId = pending.callId;
    this.call = pending.call;
    this.arguments = args;
  }
}

/** A call that ran, with its record-to-be. */
export interface RanCall extends CallInQuestion {
  readonly result: ToolResultRecord;
  /** The exception of the tool, if it threw. */
  readonly thrown: unknown;
}

/** A call that ran. */
class AskedOutcome extends AskedCall implements ToolCallOutcome {
  readonly result: ToolResultRecord;
  readonly thrown: unknown;

  constructor(question: HookQuestion, extension: Extension, ran: RanCall) {
    super(question, extension, ran);
    this.result = ran.result;
    this.thrown = ran.thrown;
  }
}

/** Data of an iteration beside the state. */
interface LastStep {
  /** The end that the turn is about to record, if any. */
  readonly ending: TurnDone | undefined;
  /** The parameters of the iteration's call; absent if another process made it. */
  readonly params: LLMCallParams | undefined;
}

/** A finished iteration. */
class AskedStep extends AskedHook implements IterationStep {
  readonly #last: LastStep;

  constructor(question: HookQuestion, extension: Extension, last: LastStep) {
    super(question, extension);
    this.#last = last;
  }

  get finish(): Finish | undefined {
    return this.#last.ending && finishOf(this.#last.ending, this.state);
  }

  get finished(): boolean {
    return this.#last.ending !== undefined;
  }

  /** If another process made the call, the turn's settings. */
  get settings(): CallSettings {
    const { params } = this.#last;
    if (!params) return callSettings(this.deps, this.state);
    const settings: CallSettings = {};
    copySettings(settings, params);
    return settings;
  }

  get response(): LoopState['lastResponse'] {
    return this.state.lastResponse;
  }

  get text(): string {
    return textOf(this.response?.message.content);
  }

  get calls(): readonly StepCall[] {
    return this.response?.calls.map((each) => ({ ...each, toolName: each.call.function.name })) ?? [];
  }

  get results(): readonly StepResult[] {
    return this.state.closedCalls.flatMap(({ call, intent, result }) => {
      if (!result) return [];
      return { ...result, toolName: call.function.name, arguments: intent ? intent.arguments : result.arguments };
    });
  }

  get offered(): readonly ToolDefinition['function'][] {
    const { params } = this.#last;
    return params ? (params.tools?.map((tool) => tool.function) ?? []) : this.state.availableTools;
  }
}

/** A turn that is about to complete. */
class AskedFinish extends AskedHook implements TurnFinish {
  readonly text: string;
  readonly reason: string;
  readonly value: unknown;

  constructor(question: HookQuestion, extension: Extension, { text, reason, value }: Required<Finish>) {
    super(question, extension);
    this.text = text;
    this.reason = reason;
    this.value = value;
  }
}

/** The end that the turn is about to record; an earlier hook may have changed it. */
export function finishOf(ending: TurnDone | undefined, { changes }: LoopState): Required<Finish> {
  const { text = '', value, reason = 'stop' } = { ...ending, ...changes.finish };
  return { text, value, reason };
}

/** How a turn ended, or is about to. */
export interface Ended {
  readonly outcome: TurnOutcome;
  readonly text: string;
  readonly value: unknown;
}

/** A turn that ended, or is about to. */
class AskedEnd extends AskedHook implements TurnEnd {
  readonly outcome: TurnOutcome;
  readonly text: string;
  readonly value: unknown;

  constructor(question: HookQuestion, extension: Extension, end: Ended) {
    super(question, extension);
    this.outcome = end.outcome;
    this.text = end.text;
    this.value = end.value;
  }
}

/** The subject and the context of each hook whose subject is more than the turn. */
interface Topics {
  readonly prepareIteration: Topic<IterationView, AskedHook>;
  readonly beforeLLMCall: Topic<CallToMake, AskedModelCall>;
  readonly afterLLMCall: Topic<LLMResponse, AskedHook>;
  readonly onLLMError: Topic<FailedCall, AskedHook>;
  readonly beforeToolCall: Topic<CallInQuestion, AskedCall>;
  readonly approveToolCall: Topic<CallInQuestion, AskedApproval>;
  readonly afterToolCall: Topic<RanCall, AskedOutcome>;
  readonly beforeFinish: Topic<Required<Finish>, AskedFinish>;
  readonly afterIteration: Topic<LastStep, AskedStep>;
  readonly afterTurn: Topic<Ended, AskedEnd>;
  readonly afterEnd: Topic<Ended, AskedEnd>;
}

interface Topic<About, Context extends AskedHook> {
  readonly about: About;
  readonly context: Context;
}

type TopicOf<Name> = Name extends keyof Topics ? Topics[Name] : Topic<undefined, AskedHook>;

/** The subject of a hook, beside the turn. */
export type AboutOf<Name> = TopicOf<Name>['about'];

/** Creates the context of a hook, and calls the hook. */
export interface HookSubject<Name extends keyof E, E extends Extension = Extension> {
  readonly context: (question: HookQuestion, extension: E, about: AboutOf<Name>) => TopicOf<Name>['context'];
  readonly ask: (
    extension: E,
    context: TopicOf<Name>['context'],
    about: AboutOf<Name>,
  ) => HookAnswer<AnswerOf<Name, E>>;
}

export type HookSubjects<E extends Extension = Extension> = {
  readonly [Name in AskedHookName<E>]: HookSubject<Name, E>;
};

const turn = (question: HookQuestion, extension: Extension) => new AskedHook(question, extension);

/** The subjects of all hooks that are called in a turn. */
export const hookSubjects: HookSubjects = {
  beforeTurn: { context: turn, ask: (extension, context) => extension.beforeTurn?.(context) },
  shouldPause: { context: turn, ask: (extension, context) => extension.shouldPause?.(context) },
  prepareIteration: { context: turn, ask: (extension, context, view) => extension.prepareIteration?.(view, context) },
  beforeLLMCall: {
    context: (question, extension, { provider }) => new AskedModelCall(question, extension, provider),
    ask: (extension, context, { params }) => extension.beforeLLMCall?.(params, context),
  },
  afterLLMCall: { context: turn, ask: (extension, context, response) => extension.afterLLMCall?.(response, context) },
  onLLMError: { context: turn, ask: (extension, context, failed) => extension.onLLMError?.(failed, context) },
  beforeToolCall: {
    context: (question, extension, call) => new AskedCall(question, extension, call),
    ask: (extension, request) => extension.beforeToolCall?.(request),
  },
  approveToolCall: {
    context: (question, extension, call) => new AskedApproval(question, extension, call),
    ask: (extension, request) => extension.approveToolCall?.(request),
  },
  afterToolCall: {
    context: (question, extension, ran) => new AskedOutcome(question, extension, ran),
    ask: (extension, outcome) => extension.afterToolCall?.(outcome),
  },
  beforeFinish: {
    context: (question, extension, finish) => new AskedFinish(question, extension, finish),
    ask: (extension, finish) => extension.beforeFinish?.(finish),
  },
  afterIteration: {
    context: (question, extension, last) => new AskedStep(question, extension, last),
    ask: (extension, step) => extension.afterIteration?.(step),
  },
  afterTurn: {
    context: (question, extension, end) => new AskedEnd(question, extension, end),
    ask: (extension, end) => extension.afterTurn?.(end),
  },
  afterEnd: {
    context: (question, extension, end) => new AskedEnd(question, extension, end),
    ask: (extension, end) => extension.afterEnd?.(end),
  },
};
