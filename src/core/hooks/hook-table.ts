import { type AgentLoopError, type Extension, isObject } from '../contracts/index.ts';
import type { DecisionPoint, ExtensionError, LoopState, RecordedHook } from '../journal/index.ts';
import type { LastCall } from '../model-call/view.ts';

/** The members of an extension that are not hooks. */
type Setting = 'name' | 'onError' | 'timeoutMs' | 'toolProviders' | 'limitUsage' | 'partials' | '~value';

/** Every hook of an extension: each other member is one, and must have a row in the table. */
export type HookName<E extends Extension = Extension> = Exclude<keyof E, Setting> & string;

/** The hooks that are called in a turn. `beforeMessage` is not: there may be no turn yet. */
export type AskedHookName<E extends Extension = Extension> = Exclude<HookName<E>, 'beforeMessage'>;

/** The hooks that are called between two steps of a turn, once per iteration. */
export type StepHook = DecisionPoint | 'shouldPause' | 'afterTurn';

type FunctionOf<Member> = Extract<Member, (...given: never[]) => unknown>;

/** The answer type of a hook, without empty answers. */
export type AnswerOf<Name extends keyof E, E extends Extension = Extension> = NonNullable<
  Exclude<Awaited<ReturnType<FunctionOf<E[Name]>>>, void>
>;

type KeysOf<Answer> = Answer extends object ? keyof Answer : never;

/** The properties of a hook that is called in a turn. */
interface HookRow<Name extends keyof E, E extends Extension = Extension> {
  /** When it is called. `isDue` returns whether a once-per-iteration hook has yet to be called. */
  readonly asked: Name extends StepHook ? 'once an iteration' : 'each time';
  /** The allowed properties of its answer; any other is an error of the extension. `fail` ends the turn. */
  readonly answer: Readonly<Record<KeysOf<AnswerOf<Name, E>>, true>>;
  /** Whether true and false are valid answers. */
  readonly flag: Extract<AnswerOf<Name, E>, boolean> extends never ? false : true;
  /** The error message for an invalid answer. */
  readonly misfit: string;
  /** Whether its answer is recorded under its name: a `decision` is not asked for again on resume, for the same iteration. */
  readonly recorded: Name extends DecisionPoint ? 'decision' : Name extends RecordedHook ? 'change' : false;
  /** What follows if it throws, times out, or returns an invalid answer. Hooks that decide whether a call may run refuse it. */
  readonly failure: 'by onError' | 'refuses the call';
  /** When a drain stops the wait for its answer: at once, or after `abortGraceMs`, since the result of a tool can still be recorded. */
  readonly onDrain: 'at once' | 'after the grace';
  /** Whether a cancel or drain rejects the wait, so that the end of a turn continues without the answer. */
  readonly endsWait: boolean;
}

/** A row per hook. A new hook needs a member of `Extension`, a row here and one in `hookSubjects`; the compiler names what is missing. */
export type HookTable<E extends Extension = Extension> = {
  readonly [Name in HookName<E>]: Name extends 'beforeMessage'
    ? { readonly asked: 'for each message' }
    : HookRow<Name, E>;
};

const plain = {
  flag: false,
  misfit: 'not an object',
  failure: 'by onError',
  onDrain: 'at once',
  endsWait: false,
} as const;
const noted = { data: true, events: true, fail: true } as const;
const used = { usage: true, usageBy: true } as const;
const course = { ...noted, ...used, messages: true, settings: true, finish: true } as const;
const turn = { ...course, tools: true } as const;

/** Every hook, in the order in which a turn calls them. */
export const hookTable: HookTable = {
  beforeMessage: { asked: 'for each message' },
  beforeTurn: {
    asked: 'once an iteration',
    ...plain,
    answer: { ...turn, given: true, earlier: true, waitedMs: true, agent: true },
    recorded: 'decision',
  },
  shouldPause: { asked: 'once an iteration', ...plain, answer: { reason: true }, flag: true, recorded: false },
  prepareIteration: {
    asked: 'each time',
    ...plain,
    answer: { ...noted, ...used, view: true, finish: true },
    recorded: 'change',
  },
  beforeLLMCall: {
    asked: 'each time',
    ...plain,
    answer: { params: true, provider: true, response: true, fail: true },
    recorded: false,
  },
  afterLLMCall: { asked: 'each time', ...plain, answer: { ...noted, ...used, response: true }, recorded: 'change' },
  onLLMError: {
    asked: 'each time',
    ...plain,
    answer: { ...noted, ...used, settings: true, repeat: true },
    recorded: 'change',
  },
  beforeToolCall: {
    asked: 'each time',
    ...plain,
    answer: { deny: true, answer: true, arguments: true, deadline: true, fail: true },
    recorded: false,
  },
  approveToolCall: {
    asked: 'each time',
    ...plain,
    answer: { decision: true, reason: true, prompt: true, approved: true },
    misfit: 'it gave no decision: { approved }, or { decision } with approve, reject or ask',
    recorded: false,
    failure: 'refuses the call',
  },
  afterToolCall: {
    asked: 'each time',
    ...plain,
    answer: { ...noted, ...used, result: true, messages: true, finish: true, agent: true },
    recorded: 'change',
    onDrain: 'after the grace',
  },
  beforeFinish: { asked: 'once an iteration', ...plain, answer: { ...course, agent: true }, recorded: 'decision' },
  afterIteration: {
    asked: 'once an iteration',
    ...plain,
    answer: { ...turn, results: true, agent: true },
    recorded: 'decision',
  },
  afterTurn: {
    asked: 'once an iteration',
    ...plain,
    answer: { text: true, value: true, fail: true },
    recorded: 'change',
    endsWait: true,
  },
  afterEnd: { asked: 'each time', ...plain, answer: {}, recorded: false, endsWait: true },
};

/** The names of all hooks, in the order in which a turn calls them. */
export const hookNames = Object.keys(hookTable) as readonly HookName[];

/** The extensions that have each hook. */
export type HookLists = Readonly<Record<HookName, readonly Extension[]>>;

export function hookLists(extensions: readonly Extension[]): HookLists {
  const lists = hookNames.map((hook) => [hook, extensions.filter((extension) => extension[hook])]);
  return Object.fromEntries(lists) as HookLists;
}

/** Throws if an answer is invalid for the hook, or has an unknown property. */
export function checkAnswer<Name extends AskedHookName>(hook: Name, given: unknown): asserts given is AnswerOf<Name> {
  const { answer, flag, misfit }: HookRow<AskedHookName> = hookTable[hook];
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

/** The dependencies of a run, with the hooks of its extensions. */
interface HookedRun {
  readonly config: { readonly hooks: HookLists };
}

/** The hooks of one run of a turn: receives their failures, and remembers which of them were called between two steps. */
export class Hooks<Run extends HookedRun = HookedRun> {
  lists: HookLists;
  /** The dependencies of the current agent; absent while it is the first one. */
  segment: Run | undefined;
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
  begin(segment: Run): void {
    this.segment = segment;
    this.lists = segment.config.hooks;
    this.lastCall = undefined;
    this.#asked?.delete('beforeTurn');
  }

  /** Whether a once-per-iteration hook has yet to be called. */
  isDue(hook: StepHook, state: LoopState): boolean {
    if (this.lists[hook].length === 0) return false;
    const decided: Readonly<Partial<Record<StepHook, number>>> = state.changes.decided;
    return this.#asked?.get(hook) !== state.iteration && decided[hook] !== state.iteration;
  }

  noteAsked(hook: StepHook, { iteration }: LoopState): void {
    this.#asked ??= new Map();
    this.#asked.set(hook, iteration);
  }
}
