// The records of a turn, their fold (the state), and their projection (the events). Exports for code outside of `core`.
export { callSettings, changedOptions, iterationsBefore, maxIterationsOf } from './call-settings.ts';
export { checkRecord } from './check-record.ts';
export {
  applyRecord,
  type Commit,
  CommitDraft,
  commitOf,
  type ExtensionError,
  foldRecords,
  type ModelNoted,
  replayOf,
  type Signal,
  type Stamper,
  type Step,
  type StreamChunk,
  type SubAgentSignal,
  type ToolProgress,
} from './commit.ts';
export { type AgentText, agentText, eventsAfter, turnPartials } from './event-operators.ts';
export { EventProjector, type EventProjectorOptions, eventsOf, GrowingText, projectEvents } from './event-projector.ts';
export {
  type AgentChanged,
  type AgentChoice,
  type CallHook,
  type DecisionPoint,
  type Effects,
  type EmittedEvent,
  type ExtensionRecord,
  eventsIn,
  type Finish,
  isLeftCall,
  leftCall,
  type RecordedHook,
  type TurnOverrides,
} from './extension-record.ts';
export { type CommandIds, History, isInstruction, type PersistentArray } from './history.ts';
export {
  calledChildren,
  type EarlierRuns,
  earlierRuns,
  endedInOrder,
  exportedAfterMs,
  type LostRun,
  type LostSpan,
} from './lost-runs.ts';
export { observeTask, observeTaskTree, observeTree, observeTurn } from './observe.ts';
export { artifactId, isoTime, outputId, type ProjectionOptions } from './projection.ts';
export {
  askedFor,
  asOpen,
  nextQuestionId,
  openQuestions,
  taskAskedFor,
  waitsForAnswers,
  withChild,
} from './questions.ts';
export { isKnownType, kindOf } from './record-table.ts';
export {
  type Approval,
  type CallDetails,
  type ForkOrigin,
  type Hold,
  isTerminal,
  type JournalRecord,
  journalSchema,
  type LlmDone,
  type LlmStart,
  type ParentLink,
  type Question,
  type RecordedCall,
  type RecordStamp,
  type RetryOrigin,
  type ShownOptions,
  type Stamped,
  type Submission,
  type TerminalRecord,
  type ToolIntent,
  type ToolResultRecord,
  type TraceLink,
  type TurnAnswered,
  type TurnAsked,
  type TurnCanceled,
  type TurnDone,
  type TurnFailed,
  type TurnRecord,
  type TurnResumed,
  type TurnSettings,
  type TurnStarted,
  type TurnSuspended,
} from './records.ts';
export { shownRecords } from './replaced-text.ts';
export {
  type Changes,
  type GivenAnswer,
  type LoopFields,
  LoopState,
  neverOffered,
  noSettings,
  openCallIndex,
  type PendingToolCall,
  type Segment,
  type StartedCall,
  type TurnIdentity,
  type TurnOutcome,
} from './state.ts';
export { type Deadline, ready, storeError, whenAnswered, whenReady } from './store-answer.ts';
export {
  type CompletedTurn,
  closedMessages,
  originOf,
  type PersistedLoopState,
  resultOf,
  TurnError,
  type TurnResult,
  taskState,
  toPersisted,
  type UnfinishedTurn,
} from './turn-result.ts';
