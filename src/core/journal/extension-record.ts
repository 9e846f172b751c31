import type { AgentUsage, Content, Message, Usage } from '../contracts/messages.ts';
import type { CallSettings } from '../contracts/provider.ts';

/** Another agent runs the turn from the next model call on. */
export interface AgentChanged {
  readonly type: 'agent.changed';
  /** The id of the agent before. */
  readonly from: string;
  /** The id of the agent from here on. */
  readonly to: string;
  readonly reason: 'current' | 'named' | 'route' | 'hand_off' | 'sequence';
  /** The call that handed the turn over. */
  readonly callId?: string;
  /** Added to the history as a user-role message whose `name` is `from`. */
  readonly note?: string;
}

/** The agent that runs the turn next, and why. */
export type AgentChoice = Omit<AgentChanged, 'type' | 'from'>;

/** Settings for the rest of a turn. */
export interface TurnOverrides extends CallSettings {
  readonly systemPrompt?: string;
  readonly maxIterations?: number;
}

/** What a turn ends with. */
export interface Finish {
  /** Default: the text of the last response. */
  readonly text?: string;
  /** JSON; `result().value`. */
  readonly value?: unknown;
  /** Default `stop`. */
  readonly reason?: string;
}

/** What an extension may do to the course of a turn: a closed set that the core knows how to fold. */
export interface Effects {
  /** Appended to the history; after the last response they make the turn continue. */
  readonly messages?: readonly Message[];
  /** Replaces the messages that the caller gave. Only before the first iteration. */
  readonly given?: readonly Message[];
  /** How many of `given` are of earlier turns of the context; they come first. Default: as before. */
  readonly earlier?: number;
  /** How long the turn waited for others of its context, from its start on, in milliseconds: that does not count as time of the turn. */
  readonly waitedMs?: number;
  /** Contents of tool results of the last iteration, by call id, in place of what the tools gave. */
  readonly results?: Readonly<Record<string, Content>>;
  /** For all later model calls. */
  readonly settings?: TurnOverrides;
  /** Tools that later model calls are offered or not, by name. */
  readonly tools?: { readonly add?: readonly string[]; readonly remove?: readonly string[] };
  /** The turn ends once every call has its result. */
  readonly finish?: Finish;
  /** Runs the turn once every call has its result: `agent.changed` follows. Of several the first counts. */
  readonly agent?: AgentChoice;
  /** Of model calls of the extension's own, and of its child turns. */
  readonly usage?: Usage;
  /** The part of `usage` that other agents used, by agent and model. */
  readonly usageBy?: readonly AgentUsage[];
}

/** The points at which an extension decides something between two steps; each comes once in an iteration. */
export type DecisionPoint = 'beforeTurn' | 'afterIteration' | 'beforeFinish';

/** The hooks whose changes are recorded. */
export type RecordedHook = DecisionPoint | 'prepareIteration' | 'afterLLMCall' | 'afterToolCall' | 'afterTurn';

/** The hooks that decide about a call before it is made: they leave a record only of what their child turns used. */
export type CallHook = 'beforeLLMCall' | 'beforeToolCall' | 'approveToolCall';

/** An event of an extension, as a hook gives it and its record keeps it. */
export interface EmittedEvent {
  /** Letters, digits, `-`, `_` and `.`, at most 100. Its kind is `internal:x.<extension>.<name>`; without a name `internal:x.<extension>`. */
  readonly name?: string;
  /** JSON. */
  readonly payload?: unknown;
  /** One line for people, at most 200 characters: the timeline of the command line shows it. Default: the event is not in the timeline. */
  readonly label?: string;
}

/** A decision of an extension, or of a command such as steering (`x.steer`). `data` is opaque to the core. */
export interface ExtensionRecord {
  readonly type: `x.${string}`;
  /** What it changes in the turn. */
  readonly effects?: Effects;
  /** JSON of the extension, which it gets back on resume. */
  readonly data?: unknown;
  /** Which hook it comes from; on resume a `DecisionPoint` is not asked again for the same iteration. Absent for commands. */
  readonly hook?: RecordedHook | CallHook;
  /** Of a `CallHook`: its child turn that used `effects.usage`, as `<iteration>.<name>`, the end of that turn's task id. Each has its own record. */
  readonly branch?: string;
  /** The call that `beforeToolCall` or `approveToolCall` was asked about. */
  readonly callId?: string;
  /** What subscribers are shown, in order. */
  readonly events?: readonly EmittedEvent[];
  /** Written by version 0.1 in place of `events`: one event, its members beside its `kind`. Read it with `eventsIn`. */
  readonly event?: Readonly<Record<string, unknown>>;
  /** The id of the command that this answers, so that it is not followed twice. */
  readonly command?: string;
}

/** The events of a record, also of one that version 0.1 wrote. */
export function eventsIn({ events, event }: ExtensionRecord): readonly EmittedEvent[] {
  if (events || !event) return events ?? [];
  const { kind: _, ...payload } = event;
  return [{ payload }];
}

/**
 * The usage of the model call that a process aborted when it shut down. It has no recorded answer, and the process that resumes the turn repeats it; after it that
 * process writes nothing.
 */
export function leftCall(usage: Usage): ExtensionRecord {
  return { type: 'x.shutdown', effects: { usage } };
}

export function isLeftCall(record: { readonly type: string; readonly hook?: unknown }): boolean {
  return record.type === 'x.shutdown' && record.hook === undefined;
}
