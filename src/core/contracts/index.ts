// What the edges implement and import: providers, tools, stores, extensions, messages, events, errors, the clock, the configuration. Other rooms import from here only.
export type { ArtifactChunk } from './artifact-chunk.ts';
export type {
  AppendedChunk,
  Artifact,
  ArtifactChange,
  ArtifactContent,
  ArtifactInfo,
  ArtifactPage,
  ArtifactQuery,
  ArtifactStore,
  ChunkOptions,
  NewArtifact,
  UpdateOptions,
  VersionOptions,
} from './artifact-store.ts';
export { checkMessages } from './check-messages.ts';
export { type Clock, systemClock } from './clock.ts';
export type {
  AgentLoopConfig,
  AgentLoopContext,
  AgentSetup,
  Logger,
  OnLength,
  OnLimit,
  StartOptions,
} from './config.ts';
export type { Defined } from './defined.ts';
export {
  AgentLoopError,
  type AgentLoopErrorOptions,
  type ErrorCode,
  errorCodes,
  messageOf,
  nameOf,
} from './errors.ts';
export type {
  A2AMessage,
  A2APart,
  AgentEvent,
  ArtifactUpdateEvent,
  CheckpointEvent,
  ContentOf,
  ExtensionErrorEvent,
  ExtensionEvent,
  ExtensionEventKind,
  IterationCompleteEvent,
  IterationStartEvent,
  JsonContent,
  LlmAttemptDiscardedEvent,
  LlmCallEvent,
  LlmResponseEvent,
  PausedEvent,
  ReasoningDeltaEvent,
  Recorded,
  ResumedEvent,
  StatusUpdateEvent,
  SubAgentEvent,
  SubAgentStep,
  TaskEvent,
  TaskStatus,
  ToolCallDeltaEvent,
  ToolCompleteEvent,
  ToolEvent,
  ToolFailedEvent,
  ToolProgressEvent,
  ToolStartEvent,
  ToolSucceededEvent,
} from './events.ts';
export { partsText } from './events.ts';
export type {
  ApprovalDecision,
  ApprovalRequest,
  CallChange,
  EndChange,
  Extension,
  Failure,
  FinishChange,
  HookAnswer,
  HookContext,
  IterationChange,
  IterationStep,
  IterationView,
  ReachedLimit,
  ResponseChange,
  StepChange,
  ToolAnswer,
  ToolCallChange,
  ToolCallOutcome,
  ToolCallRequest,
  ToolOutcomeChange,
  TreeUsage,
  TurnBeginning,
  TurnChange,
  TurnEnd,
  TurnFinish,
  ValueExtension,
} from './extension.ts';
export { guardedLogger } from './guarded-logger.ts';
export { invalidConfig } from './invalid-config.ts';
export { hasInfiniteNumber, jsonFlaw, maxJsonDepth, nestsTooDeep, parsedJson } from './json-flaw.ts';
export { logText, unsafeInLogs } from './log-text.ts';
export type {
  ContextMetadata,
  ContextPage,
  ContextQuery,
  ContextSummary,
  Conversation,
  LoadOptions,
  MessagePage,
  MessageQuery,
  MessageStore,
  MetadataOptions,
  StoredMessage,
  TurnAppendOptions,
} from './message-store.ts';
export {
  type AssistantMessage,
  type Content,
  type ContentPart,
  type FilePart,
  type ImagePart,
  type Message,
  repairHistory,
  type SystemMessage,
  type TextPart,
  type ToolCall,
  type ToolMessage,
  textOf,
  type UserMessage,
} from './messages.ts';
export { missingPackage } from './missing-package.ts';
export { isPromiseLike, type MaybePromise } from './promise-like.ts';
export type {
  CallSettings,
  FinishReason,
  LLMCallParams,
  LLMCapabilities,
  LLMChunk,
  LLMProvider,
  LLMProviderInfo,
  LLMResponse,
  ResponseFormat,
  ToolChoice,
} from './provider.ts';
export type { RetryPlan } from './retry-plan.ts';
export { shownValue } from './shown-value.ts';
export {
  type AppendOptions,
  type Command,
  type Delta,
  type FollowSignal,
  type Lease,
  type PostOptions,
  type ReadOptions,
  type StoreCheck,
  type TaskQuery,
  type TaskStateStore,
  type TaskSummary,
  taskIdPattern,
  type Under,
} from './store.ts';
export { DoneSignal, TaskComplete } from './task-complete.ts';
export { isSuspended, type TaskState, waitingState } from './task-state.ts';
export type {
  ArgumentCheck,
  ArgumentChecker,
  ArgumentChecks,
  AskOptions,
  AuthContext,
  ChildLink,
  ClientToolAnswer,
  JSONSchema,
  NeedsApproval,
  OnInDoubt,
  Reconciled,
  StartedChild,
  Tool,
  ToolContext,
  ToolDefinition,
  ToolListContext,
  ToolPolicy,
  ToolProvider,
  ToolResult,
} from './tool.ts';
export { asThrown, limitOf, type ToolError } from './tool-errors.ts';
export { type AgentUsage, addUsage, lessUsage, noUsage, restOf, type Usage, usageOf } from './usage.ts';
