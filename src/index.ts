export { type Agent, type AgentFactory, agent } from './agent/agent.ts';
export type {
  AgentNotice,
  AgentState,
  AgentStateEvent,
  MessageReceivedEvent,
  MessageSentEvent,
} from './agent/agent-events.ts';
export type {
  AgentChanges,
  AgentOptions,
  AgentResumeOptions,
  AgentRetryOptions,
  AgentSettings,
  AgentTurnOptions,
  BusyPolicy,
  Dependencies,
  DependentTools,
  GivenTools,
  InferredOptions,
  KnownTools,
  ModelChoice,
  OutputOf,
  PromptFunction,
  ValueOfTurns,
} from './agent/agent-options.ts';
export { type AgentToolsOptions, agentTools } from './agent/agent-tools.ts';
export { finalOnly } from './agent/final-only.ts';
export type { Interceptors } from './agent/interceptors.ts';
export {
  type AgentRef,
  type Answered,
  byRole,
  byRule,
  type Choice,
  inParallel,
  inSequence,
  type Join,
  type Parallel,
  type ParallelOptions,
  type RoleOf,
  type RoutingContext,
  type RoutingRequest,
  type RoutingStrategy,
  type Rule,
  router,
  type Sequence,
  type Supervised,
  type SupervisorOptions,
  supervisor,
  type Valued,
} from './agent/routing.ts';
export { type Team, type TeamTurnOptions, type ToolsOf, team, type ValueOf } from './agent/team.ts';
export type { TeamEvent } from './agent/team-events.ts';
export type { TeamOptions } from './agent/team-options.ts';
export { type TeamView, withoutCalls } from './agent/team-view.ts';
export type { TurnInput } from './agent/turn-input.ts';
export type { UsageSummary } from './agent/usage-tally.ts';
export { AgentLoop } from './agent-loop.ts';
export type { ObserveOptions, ResumeOptions, RetryTurnOptions } from './core/agent-loop.ts';
export { type AgentText, agentText } from './core/agent-text.ts';
export type { AnswerOptions } from './core/answer-task.ts';
export { applyRecord, foldRecords } from './core/apply-record.ts';
export type { ArtifactChunk } from './core/artifact-chunk.ts';
export type { CancelOptions } from './core/cancel-task.ts';
export type { Answers } from './core/check-answers.ts';
export { type Clock, systemClock } from './core/clock.ts';
export type {
  AgentLoopConfig,
  AgentLoopContext,
  AgentSetup,
  Logger,
  OnLength,
  OnLimit,
  StartOptions,
} from './core/config.ts';
export { estimateTokens, type TokenCounter } from './core/count-tokens.ts';
export { AgentLoopError, type AgentLoopErrorOptions, type ErrorCode, errorCodes } from './core/errors.ts';
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
} from './core/events.ts';
export { eventsOf } from './core/events-of.ts';
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
} from './core/extension.ts';
export type { ForkEdits, ResultEdit } from './core/fork-edits.ts';
export type { ForkOptions } from './core/fork-options.ts';
export type { ForkedTask } from './core/fork-task.ts';
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
} from './core/messages.ts';
export type { Partially } from './core/partially.ts';
export { type PersistedLoopState, toPersisted } from './core/persisted-state.ts';
export type { ProjectionOptions } from './core/projection.ts';
export type {
  AgentChanged,
  AgentChoice,
  Approval,
  CallDetails,
  EmittedEvent,
  Finish,
  JournalRecord,
  ParentLink,
  Question,
  RecordStamp,
  Stamped,
  TurnOverrides,
  TurnRecord,
  TurnStarted,
} from './core/records.ts';
export type { RetryPlan } from './core/retry-plan.ts';
export { LoopState, type PendingToolCall, type TurnOutcome } from './core/state.ts';
export { DoneSignal, TaskComplete } from './core/task-complete.ts';
export type { TaskState } from './core/task-state.ts';
export type { Turn } from './core/turn.ts';
export { type CompletedTurn, TurnError, type TurnResult, type UnfinishedTurn } from './core/turn-result.ts';
export type { DiscardedText, TextOptions, TurnStream } from './core/turn-text.ts';
export type { AgentUsage, Usage } from './core/usage.ts';
export { type BranchOptions, branch } from './extensions/branch.ts';
export {
  type ContextTurns,
  carryOver,
  compactConversation,
  compactionOf,
  compactionOfTurn,
  withCompaction,
} from './extensions/carry-over.ts';
export { type CompactionEvent, compactHistory, isCompactionEvent } from './extensions/compact-history.ts';
export type { CompactionOptions } from './extensions/context/compaction-options.ts';
export { type GptTokenizerOptions, gptTokenizer } from './extensions/context/gpt-tokenizer.ts';
export type { Compaction } from './extensions/context/summary-message.ts';
export { type ContextManagementOptions, contextManagement } from './extensions/context-management.ts';
export { type EagerTools, eagerTools } from './extensions/eager-tools/eager-tools.ts';
export { type DoneToolOptions, doneTool } from './extensions/finish/done-tool.ts';
export { type FinishedWorkOptions, requireFinishedWork } from './extensions/finish/require-finished-work.ts';
export {
  type Block,
  type GuardrailsOptions,
  guardrails,
  type InputGuardrail,
  type OutputContext,
  type OutputGuardrail,
  type Replacement,
  type ToolCallGuardrail,
  type Verdict,
} from './extensions/guardrails/guardrails.ts';
export { type RedactSecretsOptions, redactSecrets, secretRedactor } from './extensions/guardrails/redact-secrets.ts';
export type { LimitReason } from './extensions/limits/broken-limit.ts';
export { type LimitsOptions, limits } from './extensions/limits/limits.ts';
export { type ApprovalsOptions, approvals } from './extensions/permissions/approvals.ts';
export {
  type DecisionOn,
  isSignedApproval,
  type SignedApproval,
  signApproval,
} from './extensions/permissions/signed-approval.ts';
export {
  type PermissionRule,
  type ToolPermissionsOptions,
  toolPermissions,
} from './extensions/permissions/tool-permissions.ts';
export type { OutputSchema, StructuredOutputOptions } from './extensions/structured-output/output-options.ts';
export type { OutputMode } from './extensions/structured-output/output-way.ts';
export { type StructuredOutput, structuredOutput } from './extensions/structured-output/structured-output.ts';
export {
  type InputOf,
  type TypedInput,
  type TypedInputOptions,
  typedInput,
} from './extensions/structured-output/typed-input.ts';
export { type ToolOutputCacheOptions, toolOutputCache } from './extensions/tool-output-cache.ts';
export { type Budget, type BudgetExtensionOptions, type BudgetOptions, budget } from './extensions/usage/budget.ts';
export {
  type RecordSessionOptions,
  recordSession,
  type SessionEntry,
} from './extensions/usage/record-session.ts';
export {
  type ModelUsage,
  type TrackUsageOptions,
  trackUsage,
  type UsageByModel,
  usageByModel,
} from './extensions/usage/track-usage.ts';
export { type WindowOptions, windowHistory } from './extensions/window-history.ts';
export { fromAsyncIterable, type IterationScope } from './providers/from-async-iterable.ts';
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
} from './providers/interfaces.ts';
export type { PriceList } from './providers/models/call-cost.ts';
export type { ModelAbilities, ModelInfo, ModelPrices, TokenPrices } from './providers/models/model-info.ts';
export { ModelRegistry } from './providers/models/model-registry.ts';
export { type CacheResponsesOptions, cacheResponses } from './providers/policies/cache-responses.ts';
export { type CircuitBreakerOptions, circuitBreaker } from './providers/policies/circuit-breaker.ts';
export { composePolicies } from './providers/policies/compose-policies.ts';
export { type FallbackOptions, fallback } from './providers/policies/fallback.ts';
export { type HedgeOptions, hedge } from './providers/policies/hedge.ts';
export { type LimitConcurrencyOptions, limitConcurrency } from './providers/policies/limit-concurrency.ts';
export type { ProviderPolicy } from './providers/policies/provider-policy.ts';
export { type RateLimitOptions, rateLimit } from './providers/policies/rate-limit.ts';
export { type RecordResponsesOptions, recordResponses } from './providers/policies/record-responses.ts';
export { type ReplayResponsesOptions, replayResponses } from './providers/policies/replay-responses.ts';
export { type RetryOptions, retry } from './providers/policies/retry.ts';
export { type TimeoutOptions, timeout } from './providers/policies/timeout.ts';
export type { Deviation } from './replay/deviation.ts';
export type { ReplayConfig } from './replay/perform-replay.ts';
export {
  type Journal,
  type Replay,
  type ReplayOptions,
  type ReplayResult,
  replay,
} from './replay/replay.ts';
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
} from './stores/artifacts/artifact-store.ts';
export { type FolderArtifactStoreOptions, folderArtifactStore } from './stores/artifacts/folder-artifact-store.ts';
export {
  InMemoryArtifactStore,
  type InMemoryArtifactStoreOptions,
} from './stores/artifacts/in-memory-artifact-store.ts';
export type { CacheSetOptions, CacheStore } from './stores/cache/cache-store.ts';
export { InMemoryCacheStore, type InMemoryCacheStoreOptions } from './stores/cache/in-memory-cache-store.ts';
export { StoreFactory } from './stores/factory.ts';
export type {
  AppendOptions,
  Command,
  Delta,
  FollowSignal,
  Lease,
  PostOptions,
  ReadOptions,
  StoreCheck,
  TaskQuery,
  TaskStateStore,
  TaskSummary,
  Under,
} from './stores/interfaces.ts';
export { InMemoryStateStore } from './stores/memory/in-memory-state-store.ts';
export { InMemoryMessageStore, type InMemoryMessageStoreOptions } from './stores/messages/in-memory-message-store.ts';
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
} from './stores/messages/message-store.ts';
export {
  type Snapshot,
  type SnapshotStateStoreOptions,
  type SnapshotStore,
  snapshotStateStore,
} from './stores/snapshot/snapshot-state-store.ts';
export { artifactTools } from './tools/artifact-tools.ts';
export type { BatchedCall, BatchResults } from './tools/batched-calls.ts';
export { type CacheScope, type CacheToolsOptions, cacheTools } from './tools/cache-tools.ts';
export { checkedTools } from './tools/checked-tools.ts';
export { ClientToolProvider } from './tools/client-tool-provider.ts';
export type {
  ArgumentCheck,
  AskOptions,
  AuthContext,
  ChildLink,
  ClientToolAnswer,
  JSONSchema,
  NeedsApproval,
  OnInDoubt,
  Reconciled,
  StartedChild,
  ToolContext,
  ToolDefinition,
  ToolListContext,
  ToolPolicy,
  ToolProvider,
  ToolResult,
} from './tools/interfaces.ts';
export { LocalToolProvider } from './tools/local-tools.ts';
export { parseContent } from './tools/parse-content.ts';
export { type Tool, type ToolFactory, tool } from './tools/tool.ts';
export { contentParts } from './tools/tool-content.ts';
export type { ToolOptions } from './tools/tool-options.ts';
export { type TextChunks, writeArtifact } from './tools/write-artifact.ts';
