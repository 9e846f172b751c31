// The records of a turn, the state that they fold to, and the events that they are shown as. Other rooms import from here only.
export { type AgentText, agentText } from './agent-text.ts';
export { applyRecord, foldRecords } from './apply-record.ts';
export { iterationsBefore } from './call-settings.ts';
export { checkRecord } from './check-record.ts';
export { askedFor, asOpen, innermostQuestion, kindAbove, withChild } from './child-questions.ts';
export { isBehind, projectEvents } from './event-operators.ts';
export { EventProjector } from './event-projector.ts';
export { eventsOf } from './events-of.ts';
export { GrowingText } from './growing-text.ts';
export { History, isInstruction } from './history.ts';
export { iterateEvents } from './iterate-events.ts';
export type { LostRun, LostSpan } from './lost-runs.ts';
export { observeTaskTree } from './observe-tree.ts';
export { observeTask, replayOf } from './observe-turn.ts';
export { type PersistedLoopState, toPersisted } from './persisted-state.ts';
export { artifactId, isoTime, outputId, type ProjectionOptions } from './projection.ts';
export { RecentMap } from './recent-map.ts';
export { isKnownType, kindOf } from './record-table.ts';
export {
  type AgentChanged,
  type AgentChoice,
  type Approval,
  type CallDetails,
  type EmittedEvent,
  type ExtensionRecord,
  eventsIn,
  type Finish,
  type ForkOrigin,
  isLeftCall,
  isTerminal,
  type JournalRecord,
  journalSchema,
  type LlmDone,
  type LlmStart,
  type ParentLink,
  type Question,
  type RecordedCall,
  type RecordedHook,
  type RecordStamp,
  type Stamped,
  type ToolIntent,
  type ToolResultRecord,
  type TurnAnswered,
  type TurnAsked,
  type TurnOverrides,
  type TurnRecord,
  type TurnStarted,
  type TurnSuspended,
} from './records.ts';
export { type Commit, commitOf, type Signal } from './signals.ts';
export {
  closedMessages,
  type GivenAnswer,
  LoopState,
  openCallIndex,
  openQuestions,
  type PendingToolCall,
  type TurnIdentity,
  type TurnOutcome,
  taskState,
  waitsForAnswers,
} from './state.ts';
export { type CompletedTurn, resultOf, TurnError, type TurnResult, type UnfinishedTurn } from './turn-result.ts';
export { type Deadline, ready, whenReady } from './when-ready.ts';
