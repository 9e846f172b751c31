import { type AgentLoopError, type Extension, isObject } from '../contracts/index.ts';
import type { DecisionPoint, ExtensionError, LoopState, RecordedHook } from '../journal/index.ts';
import type { LastCall } from '../model-call/view.ts';

/** The members of an extension that are not hooks. */
type Setting = 'name' | 'onError' | 'timeoutMs' | 'toolProviders' | 'limitUsage' | 'partials' | '~value';

/** Every hook of an extension: each other member is one, and must have a row in the table. */
export type HookName<E extends Extension = Extension> = Exclude<keyof E, Setting> & string;

/** The hooks that are asked in a turn. `beforeMessage` is not: there may be no turn yet. */
export type AskedHookName<E extends Extension = Extension> = Exclude<HookName<E>, 'beforeMessage'>;

/** The hooks that are asked between two steps of a turn, once in an iteration. */
export type StepHook = DecisionPoint | 'shouldPause' | 'afterTurn';

type FunctionOf<Member> = Extract<Member, (...given: never[]) => unknown>;

/** What a hook answers, where it is not nothing. */
export type AnswerOf<Name extends keyof E, E extends Extension = Extension> = NonNullable<
  Exclude<Awaited<ReturnType<FunctionOf<E[Name]>>>, void>
>;

type KeysOf<Answer> = Answer extends object ? keyof Answer : never;

/** What the engine knows of a hook that is asked in a turn. */
interface HookRow<Name extends keyof E, E extends Extension = Extension> {
  /** When it is asked. `isDue` tells whether one that comes once in an iteration still has to be. */
  readonly asked: Name extends StepHook ? 'once an iteration' : 'each time';
  /** The properties that its answer may have; any other is an error of the extension. `fail` ends the turn. */
  readonly answer: Readonly<Record<KeysOf<AnswerOf<Name, E>>, true>>;
  /** Whether true and false are answers too. */
  readonly flag: Extract<AnswerOf<Name, E>, boolean> extends never ? false : true;
  /** What an answer is that is none of these, for the author of the extension. */
  readonly misfit: string;
  /** Whether its answer leaves a record with its name: a `decision` is not asked for again on resume, for the same iteration. */
  readonly recorded: Name extends DecisionPoint ? 'decision' : Name extends RecordedHook ? 'change' : false;
  /** What follows where it throws, answers nonsense or not in time. What decides whether a call may run refuses it then. */
  readonly failure: 'by onError' | 'refuses the call';
  /** When a drain leaves an answer that is awaited: at once, or after `abortGraceMs`, as the result of a tool can still be recorded. */
  readonly onDrain: 'at once' | 'after the grace';
  /** Whether the wait fails where it is left by a cancel or a drain, so that the end of a turn continues without the answer. */
  readonly endsWait: boolean;
}

/** A row for each hook. A new hook is a member of `Extension` and a row here and in `hookSubjects`; the compiler names what is missing. */
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

/** Every hook, in the order in which a turn comes by them. */
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

/** Every hook, in the order in which a turn comes by them. */
export const hookNames = Object.keys(hookTable) as readonly HookName[];

/** For each hook the extensions that have it. */
export type HookLists = Readonly<Record<HookName, readonly Extension[]>>;

export function hookLists(extensions: readonly Extension[]): HookLists {
  const lists = hookNames.map((hook) => [hook, extensions.filter((extension) => extension[hook])]);
  return Object.fromEntries(lists) as HookLists;
}

/** Throws if an answer is not of a kind that the hook may give, or has a property that is unknown there. */
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

/** What an agent runs with: the hooks of its extensions among it. */
interface HookedRun {
  readonly config: { readonly hooks: HookLists };
}

/** The hooks of one run of a turn: where their failures are shown, and which of them were asked between two steps. */
export class Hooks<Run extends HookedRun = HookedRun> {
  lists: HookLists;
  /** What the agent that runs the turn now runs with; absent as long as it is the one that the turn began with. */
  segment: Run | undefined;
  /** Set by a hook around a tool call by which the turn fails; the batch fails it once its calls have stopped. */
  failure: AgentLoopError | undefined;
  /** What the last model call of this run was asked. */
  lastCall: LastCall | undefined;
  /** Where failures of hooks are shown. */
  out: { next(error: ExtensionError): void } | undefined;
  /** The iteration at which each was asked last. */
  #asked: Map<StepHook, number> | undefined;

  constructor(lists: HookLists) {
    this.lists = lists;
  }

  /** Another agent runs the turn from here on. */
  begin(segment: Run): void {
    this.segment = segment;
    this.lists = segment.config.hooks;
    this.lastCall = undefined;
    this.#asked?.delete('beforeTurn');
  }

  /** Whether a hook that comes once in an iteration still has to be asked. */
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
