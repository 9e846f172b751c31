import {
  type AgentLoopError,
  type Extension,
  type ExtensionSetting,
  type HookAnswer,
  type HookContext,
  isObject,
  type LLMCallParams,
  type LLMProvider,
  type ToolCall,
} from '../contracts/index.ts';
import type { CallHook, DecisionPoint, ExtensionError, LoopState, RecordedHook } from '../journal/index.ts';
import type { LastCall } from '../model-call/view.ts';

/** Every hook of an extension: each other member is one, and must have a row in the table. */
export type HookName<E extends Extension = Extension> = Exclude<keyof E, ExtensionSetting> & string;

/** The hooks that are called in a turn. `beforeMessage` is not: there may be no turn yet. */
export type AskedHookName<E extends Extension = Extension> = Exclude<HookName<E>, 'beforeMessage'>;

/** The hooks that are called between two steps of a turn, once per iteration. */
export type StepHook = DecisionPoint | 'shouldPause' | 'afterTurn';

type FunctionOf<Member> = Extract<Member, (...given: never[]) => unknown>;

/** The answer type of a hook, without empty answers. */
export type AnswerOf<Name extends keyof E, E extends Extension = Extension> = NonNullable<
  Exclude<Awaited<ReturnType<FunctionOf<E[Name]>>>, void>
>;

/** What a hook is asked about, beside the turn: its first argument, or the members that its context has more. */
export type AboutOf<Name extends keyof E, E extends Extension = Extension> = Name extends 'beforeLLMCall'
  ? CallToMake
  : Parameters<FunctionOf<E[Name]>> extends [infer First, HookContext]
    ? First
    : Omit<Parameters<FunctionOf<E[Name]>>[0], keyof HookContext>;

/** A model call before it is made, with the changes of earlier extensions. */
interface CallToMake {
  readonly params: LLMCallParams;
  /** The provider that an earlier extension chose. */
  readonly provider: LLMProvider | undefined;
}

type KeysOf<Answer> = Answer extends object ? keyof Answer : never;

/** The properties of a hook that is called in a turn. */
export interface HookRow<Name extends keyof E, E extends Extension = Extension> {
  /** When it is called. `isDue` returns whether a once-per-iteration hook has yet to be called. */
  readonly asked: Name extends StepHook ? 'once an iteration' : 'each time';
  /** Calls it with what it is about. */
  readonly call: (extension: E, context: HookContext, about: AboutOf<Name, E>) => HookAnswer<AnswerOf<Name, E>>;
  /** The allowed properties of its answer; any other is an error of the extension. `fail` ends the turn. */
  readonly answer: Readonly<Record<KeysOf<AnswerOf<Name, E>>, true>>;
  /** Whether true and false are valid answers. */
  readonly flag: Extract<AnswerOf<Name, E>, boolean> extends never ? false : true;
  /** The error message for an invalid answer. */
  readonly misfit: string;
  /** Whether no further extension is called after this answer. */
  readonly isLast: (answer: AnswerOf<Name, E>) => boolean;
  /**
   * What of its answer is recorded under its name: its changes, of which a `decision` is not asked for again on resume, for the same iteration; the
   * changed `ending` of the turn; or only the usage of its child turns.
   */
  readonly recorded: Name extends DecisionPoint
    ? 'decision'
    : Name extends RecordedHook
      ? 'change' | 'ending'
      : Name extends CallHook
        ? 'child turns'
        : 'nothing';
  /** What follows if it throws, times out, or returns an invalid answer. Hooks that decide whether a call may run refuse it. */
  readonly failure: 'by onError' | 'refuses the call';
  /** When a drain stops the wait for its answer: at once, or after `abortGraceMs`, since the result of a tool can still be recorded. */
  readonly onDrain: 'at once' | 'after the grace';
  /** Whether a cancel or drain rejects the wait, so that the end of a turn continues without the answer. */
  readonly endsWait: boolean;
}

/** A row per hook that is called in a turn. A new hook needs a member of `Extension` and a row; the compiler names what is missing. */
export type HookTable<E extends Extension = Extension> = {
  readonly [Name in AskedHookName<E>]: HookRow<Name, E>;
};

const plain = {
  flag: false,
  misfit: 'not an object',
  isLast: () => false,
  failure: 'by onError',
  onDrain: 'at once',
  endsWait: false,
} as const;
const each = { asked: 'each time', ...plain } as const;
const once = { asked: 'once an iteration', ...plain } as const;
const noted = { data: true, events: true, fail: true } as const;
const used = { usage: true, usageBy: true } as const;
const course = { ...noted, ...used, messages: true, settings: true, finish: true, agent: true } as const;

/** The hooks of a turn, in the order in which it calls them. */
export const hookTable: HookTable = {
  beforeTurn: {
    ...once,
    call: (extension, context) => extension.beforeTurn?.(context),
    answer: { ...course, tools: true, given: true, earlier: true, givenFrom: true, waitedMs: true },
    recorded: 'decision',
  },
  shouldPause: {
    ...once,
    call: (extension, context) => extension.shouldPause?.(context),
    answer: { reason: true },
    flag: true,
    isLast: (pauses) => pauses !== false,
    recorded: 'nothing',
  },
  prepareIteration: {
    ...each,
    call: (extension, context, view) => extension.prepareIteration?.(view, context),
    answer: { ...noted, ...used, view: true, finish: true },
    isLast: ({ finish }) => Boolean(finish),
    recorded: 'change',
  },
  beforeLLMCall: {
    ...each,
    // The choice of earlier extensions counts, so that several can wrap one call.
    call: (extension, context, { params, provider: value }) =>
      extension.beforeLLMCall?.(params, value ? Object.defineProperty(context, 'provider', { value }) : context),
    answer: { params: true, provider: true, response: true, fail: true },
    isLast: ({ response }) => Boolean(response),
    recorded: 'child turns',
  },
  afterLLMCall: {
    ...each,
    call: (extension, context, response) => extension.afterLLMCall?.(response, context),
    answer: { ...noted, ...used, response: true },
    recorded: 'change',
  },
  onLLMError: {
    ...each,
    call: (extension, context, failed) => extension.onLLMError?.(failed, context),
    answer: { ...noted, ...used, settings: true, repeat: true },
    isLast: ({ repeat }) => repeat === true,
    recorded: 'change',
  },
  beforeToolCall: {
    ...each,
    call: (extension, context, request) => extension.beforeToolCall?.(Object.assign(context, request)),
    answer: { deny: true, answer: true, arguments: true, deadline: true, fail: true },
    isLast: ({ deny, answer }) => deny !== undefined || answer !== undefined,
    recorded: 'child turns',
  },
  approveToolCall: {
    ...each,
    call: (extension, context, request) => extension.approveToolCall?.(Object.assign(context, request)),
    answer: { decision: true, reason: true, prompt: true, approved: true },
    misfit: 'it gave no decision: { approved }, or { decision } with approve, reject or ask',
    isLast: () => true,
    recorded: 'child turns',
    failure: 'refuses the call',
  },
  afterToolCall: {
    ...each,
    call: (extension, context, outcome) => extension.afterToolCall?.(Object.assign(context, outcome)),
    answer: { ...noted, ...used, result: true, messages: true, finish: true, agent: true },
    recorded: 'change',
    onDrain: 'after the grace',
  },
  beforeFinish: {
    ...once,
    call: (extension, context, finish) => extension.beforeFinish?.(Object.assign(context, finish)),
    answer: { ...course, withhold: true },
    isLast: ({ messages = [], agent }) => messages.length > 0 || agent !== undefined,
    recorded: 'decision',
  },
  afterIteration: {
    ...once,
    call: (extension, context, step) => extension.afterIteration?.(Object.assign(context, step)),
    answer: { ...course, tools: true, results: true },
    recorded: 'decision',
  },
  afterTurn: {
    ...once,
    call: (extension, context, end) => extension.afterTurn?.(Object.assign(context, end)),
    answer: { text: true, value: true, fail: true },
    recorded: 'ending',
    endsWait: true,
  },
  afterEnd: {
    ...each,
    call: (extension, context, end) => extension.afterEnd?.(Object.assign(context, end)),
    answer: {},
    recorded: 'nothing',
    endsWait: true,
  },
};

/** Whether the changes of a hook's answer, and the usage of its child turns, are recorded as its answer. */
export function recordsChanges(hook: AskedHookName): hook is Exclude<RecordedHook, 'afterTurn'> {
  const { recorded } = hookTable[hook];
  return recorded === 'decision' || recorded === 'change';
}

/** Whether only the usage of a hook's child turns is recorded. */
export function recordsChildren(hook: AskedHookName): hook is CallHook {
  return hookTable[hook].recorded === 'child turns';
}

/** The names of all hooks, in the order in which they are called. */
export const hookNames = ['beforeMessage', ...Object.keys(hookTable)] as readonly HookName[];

/** The extensions that have each hook. */
export type HookLists = Readonly<Record<HookName, readonly Extension[]>>;

export function hookLists(extensions: readonly Extension[]): HookLists {
  const lists = hookNames.map((hook) => [hook, extensions.filter((extension) => extension[hook])]);
  return Object.fromEntries(lists) as HookLists;
}

/** Throws if an answer is invalid for the hook, or has an unknown property. */
export function checkAnswer<Name extends AskedHookName>(hook: Name, given: unknown): asserts given is AnswerOf<Name> {
  const { answer, flag, misfit }: { answer: object; flag: boolean; misfit: string } = hookTable[hook];
  if (typeof given === 'boolean' && flag) return;
  if (!isObject(given)) {
    const kind = Array.isArray(given) ? 'a list' : typeof given;
    throw new TypeError(misfit === plain.misfit ? `it answered ${kind}, ${misfit}` : `${misfit}; not ${kind}`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || Object.hasOwn(answer, name)) continue;
    throw new TypeError(`unknown property "${name}"; allowed: ${Object.keys(answer).join(', ') || 'none'}`);
  }
}

/** The hooks of one run of a turn: receives their failures, and remembers which of them were called between two steps. */
export class Hooks {
  lists: HookLists;
  /** Set if a hook of a tool call fails the turn; the batch fails the turn once its calls have stopped. */
  failure: AgentLoopError | undefined;
  /** The last model call of this run. */
  lastCall: LastCall | undefined;
  /** Receives failures of hooks. */
  out: { next(error: ExtensionError): void } | undefined;
  /** The iteration of the last call of each. */
  #asked: Map<StepHook, number> | undefined;

  constructor(lists: HookLists) {
    this.lists = lists;
  }

  /** Another agent runs the turn from now on. */
  begin(lists: HookLists): void {
    this.lists = lists;
    this.lastCall = undefined;
    this.#asked?.delete('beforeTurn');
  }

  /** Whether any extension wants to be called in a hook. `call`: the tool call that it is about. */
  isWanted(hook: AskedHookName, state: LoopState, call?: ToolCall): boolean {
    try {
      for (const extension of this.lists[hook]) if (extension.isDue?.(hook, state, call) !== false) return true;
      return false;
    } catch {
      // The round of questions fails by the same error, and handles it.
      return true;
    }
  }

  /** Whether a once-per-iteration hook has yet to be called. */
  isDue(hook: StepHook, state: LoopState): boolean {
    if (this.lists[hook].length === 0 || !this.isWanted(hook, state)) return false;
    const decided: Readonly<Partial<Record<StepHook, number>>> = state.changes.decided;
    return this.#asked?.get(hook) !== state.iteration && decided[hook] !== state.iteration;
  }

  noteAsked(hook: StepHook, { iteration }: LoopState): void {
    this.#asked ??= new Map();
    this.#asked.set(hook, iteration);
  }
}
