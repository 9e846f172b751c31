import type { MessageView } from '../contracts/context-stores.ts';
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
  /** The call that handed the turn off. */
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

/** The final text, value and reason of a turn. */
export interface Finish {
  /** Default: the text of the last response. */
  readonly text?: string;
  /** JSON; `result().value`. */
  readonly value?: unknown;
  /** Default `stop`. */
  readonly reason?: string;
}

/** An extension's changes to the course of a turn: a closed set that the core folds. */
export interface Effects {
  /** Appended to the history; after the last response they continue the turn. */
  readonly messages?: readonly Message[];
  /** `messages` arrived after the last answer of the turn, which ends without answering them. */
  readonly late?: true;
  /** The last answer is refused: the model reads it in this turn, and nobody does after it. */
  readonly withhold?: true;
  /** Replaces the caller's messages. Only before the first iteration. */
  readonly given?: readonly Message[];
  /** How many of `given`, from the first on, belong to earlier turns of the context. Default: unchanged. */
  readonly earlier?: number;
  /** What a store of journals that `refersTo` the conversation writes in place of `given`. Absent from the records that such a store returns. */
  readonly givenFrom?: MessageView;
  /** The context of `given` was deleted: other messages stand in their place, and an open turn fails. */
  readonly deleted?: true;
  /** How long the turn waited for other turns of its context, since its start, in milliseconds; excluded from the turn's duration. */
  readonly waitedMs?: number;
  /** Contents of tool results of the last iteration, by call id, replacing those of the tools. */
  readonly results?: Readonly<Record<string, Content>>;
  /** For all later model calls. */
  readonly settings?: TurnOverrides;
  /** Names of tools that later model calls are offered or no longer offered. */
  readonly tools?: { readonly add?: readonly string[]; readonly remove?: readonly string[] };
  /** The failed model call of this iteration is repeated, this once. */
  readonly repeat?: true;
  /** The turn ends once every call has its result. */
  readonly finish?: Finish;
  /** The agent that runs the turn once every call has its result: `agent.changed` follows. The first of several counts. */
  readonly agent?: AgentChoice;
  /** Usage of the extension's own model calls and of its child turns. */
  readonly usage?: Usage;
  /** The part of `usage` that other agents used, by agent and model. */
  readonly usageBy?: readonly AgentUsage[];
}

/** The hooks that decide between two steps; each is called once per iteration. */
export type DecisionPoint = 'beforeTurn' | 'afterIteration' | 'beforeFinish';

/** The hooks whose changes are recorded. */
export type RecordedHook =
  | DecisionPoint
  | 'prepareIteration'
  | 'afterLLMCall'
  | 'onLLMError'
  | 'afterToolCall'
  | 'afterTurn';

/** The hooks that decide about a call before it is made: only the usage of their child turns is recorded. */
export type CallHook = 'beforeLLMCall' | 'beforeToolCall' | 'approveToolCall';

/** An event of an extension, as returned by a hook and stored in its record. */
export interface EmittedEvent {
  /** Letters, digits, `-`, `_` and `.`, at most 100. The event kind is `internal:x.<extension>.<name>`; without a name `internal:x.<extension>`. */
  readonly name?: string;
  /** JSON. */
  readonly payload?: unknown;
  /** One line for people, at most 200 characters, for the timeline of the command line. Default: the event is not in the timeline. */
  readonly label?: string;
}

/** A decision of an extension, or of a command such as steering (`x.steer`). `data` is opaque to the core. */
export interface ExtensionRecord {
  readonly type: `x.${string}`;
  /** Its changes to the turn. */
  readonly effects?: Effects;
  /** JSON of the extension, returned to it on resume. */
  readonly data?: unknown;
  /** The hook that returned it; on resume a `DecisionPoint` is not called again for the same iteration. Absent for commands. */
  readonly hook?: RecordedHook | CallHook;
  /** For a `CallHook`: its child turn with the usage `effects.usage`, as `<iteration>.<name>`, the end of that turn's task id. One record per child turn. */
  readonly branch?: string;
  /** The call that `beforeToolCall` or `approveToolCall` was called for. */
  readonly callId?: string;
  /** Emitted to subscribers, in order. */
  readonly events?: readonly EmittedEvent[];
  /** Written by version 0.1 instead of `events`: one event, its members beside its `kind`. Read it with `eventsIn`. */
  readonly event?: Readonly<Record<string, unknown>>;
  /** The id of the command that this record applies, so that it is applied once. */
  readonly command?: string;
}

/** The events of a record, including records of version 0.1. */
export function eventsIn({ events, event }: ExtensionRecord): readonly EmittedEvent[] {
  if (events || !event) return events ?? [];
  const { kind: _, ...payload } = event;
  return [{ payload }];
}

/**
 * The reported usage of the model call that a process aborted at its shutdown. Its answer is not recorded; the process that resumes the turn repeats the call.
 * The aborting process writes nothing after this record.
 */
export function leftCall(usage: Usage): ExtensionRecord {
  return { type: 'x.shutdown', effects: { usage } };
}

export function isLeftCall(record: { readonly type: string; readonly hook?: unknown }): boolean {
  return record.type === 'x.shutdown' && record.hook === undefined;
}
