// The records of a turn, the state that they fold to, and the events that they are shown as. Other rooms import from here only.

export { iterationsBefore } from './call-settings.ts';
export { checkRecord } from './check-record.ts';
export { applyRecord, type Commit, commitOf, foldRecords, replayOf, type Signal } from './commit.ts';
export { EventProjector, eventsOf, GrowingText, projectEvents } from './event-projector.ts';
export {
  type AgentChanged,
  type AgentChoice,
  type EmittedEvent,
  type ExtensionRecord,
  eventsIn,
  type Finish,
  isLeftCall,
  type RecordedHook,
  type TurnOverrides,
} from './extension-record.ts';
export { History, isInstruction } from './history.ts';
export type { LostRun, LostSpan } from './lost-runs.ts';
export { observeTask, observeTaskTree } from './observe.ts';
export { artifactId, isoTime, outputId, type ProjectionOptions } from './projection.ts';
export {
  askedFor,
  asOpen,
  innermostQuestion,
  kindAbove,
  openQuestions,
  waitsForAnswers,
  withChild,
} from './questions.ts';
export { type AgentText, agentText, isAfterCursor, iterateEvents } from './read-events.ts';
export { isKnownType, kindOf } from './record-table.ts';
export {
  type Approval,
  type CallDetails,
  type ForkOrigin,
  isTerminal,
  type JournalRecord,
  journalSchema,
  type LlmDone,
  type LlmStart,
  type ParentLink,
  type Question,
  type RecordedCall,
  type RecordStamp,
  type Stamped,
  type ToolIntent,
  type ToolResultRecord,
  type TurnAnswered,
  type TurnAsked,
  type TurnRecord,
  type TurnStarted,
  type TurnSuspended,
} from './records.ts';
export {
  type GivenAnswer,
  LoopState,
  openCallIndex,
  type PendingToolCall,
  type TurnIdentity,
  type TurnOutcome,
} from './state.ts';
export { type Deadline, ready, whenReady } from './store-answer.ts';
export {
  type CompletedTurn,
  closedMessages,
  type PersistedLoopState,
  resultOf,
  TurnError,
  type TurnResult,
  taskState,
  toPersisted,
  type UnfinishedTurn,
} from './turn-result.ts';
