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
export {
  type A2AMessage,
  type A2APart,
  type AgentEvent,
  type AgentLoopConfig,
  type AgentLoopContext,
  AgentLoopError,
  type AgentLoopErrorOptions,
  type AgentSetup,
  type AgentUsage,
  type AppendedChunk,
  type AppendOptions,
  type ApprovalDecision,
  type ApprovalRequest,
  type ArgumentCheck,
  type Artifact,
  type ArtifactChange,
  type ArtifactChunk,
  type ArtifactContent,
  type ArtifactInfo,
  type ArtifactPage,
  type ArtifactQuery,
  type ArtifactStore,
  type ArtifactUpdateEvent,
  type AskOptions,
  type AssistantMessage,
  type AuthContext,
  type CallChange,
  type CallSettings,
  type CheckpointEvent,
  type ChildLink,
  type ChunkOptions,
  type ClientToolAnswer,
  type Clock,
  type Command,
  type Content,
  type ContentOf,
  type ContentPart,
  type ContextMetadata,
  type ContextPage,
  type ContextQuery,
  type ContextSummary,
  type Conversation,
  type Delta,
  DoneSignal,
  type EndChange,
  type ErrorCode,
  type Extension,
  type ExtensionErrorEvent,
  type ExtensionEvent,
  type ExtensionEventKind,
  errorCodes,
  type Failure,
  type FilePart,
  type FinishChange,
  type FinishReason,
  type FollowSignal,
  type HookAnswer,
  type HookContext,
  type ImagePart,
  type IterationChange,
  type IterationCompleteEvent,
  type IterationStartEvent,
  type IterationStep,
  type IterationView,
  type JSONSchema,
  type JsonContent,
  type Lease,
  type LLMCallParams,
  type LLMCapabilities,
  type LLMChunk,
  type LLMProvider,
  type LLMProviderInfo,
  type LLMResponse,
  type LlmAttemptDiscardedEvent,
  type LlmCallEvent,
  type LlmResponseEvent,
  type LoadOptions,
  type Logger,
  type Message,
  type MessagePage,
  type MessageQuery,
  type MessageStore,
  type MetadataOptions,
  type NeedsApproval,
  type NewArtifact,
  type OnInDoubt,
  type OnLength,
  type OnLimit,
  type PausedEvent,
  type PostOptions,
  type ReachedLimit,
  type ReadOptions,
  type ReasoningDeltaEvent,
  type Reconciled,
  type Recorded,
  type ResponseChange,
  type ResponseFormat,
  type ResumedEvent,
  type RetryPlan,
  repairHistory,
  type StartedChild,
  type StartOptions,
  type StatusUpdateEvent,
  type StepChange,
  type StoreCheck,
  type StoredMessage,
  type SubAgentEvent,
  type SubAgentStep,
  type SystemMessage,
  systemClock,
  TaskComplete,
  type TaskEvent,
  type TaskQuery,
  type TaskState,
  type TaskStateStore,
  type TaskStatus,
  type TaskSummary,
  type TextPart,
  type ToolAnswer,
  type ToolCall,
  type ToolCallChange,
  type ToolCallDeltaEvent,
  type ToolCallOutcome,
  type ToolCallRequest,
  type ToolChoice,
  type ToolCompleteEvent,
  type ToolContext,
  type ToolDefinition,
  type ToolEvent,
  type ToolFailedEvent,
  type ToolListContext,
  type ToolMessage,
  type ToolOutcomeChange,
  type ToolPolicy,
  type ToolProgressEvent,
  type ToolProvider,
  type ToolResult,
  type ToolStartEvent,
  type ToolSucceededEvent,
  type TreeUsage,
  type TurnAppendOptions,
  type TurnBeginning,
  type TurnChange,
  type TurnEnd,
  type TurnFinish,
  textOf,
  type Under,
  type UpdateOptions,
  type Usage,
  type UserMessage,
  type ValueExtension,
  type VersionOptions,
} from './core/contracts/index.ts';
export {
  type AgentChanged,
  type AgentChoice,
  type AgentText,
  type Approval,
  agentText,
  applyRecord,
  type CallDetails,
  type CompletedTurn,
  type EmittedEvent,
  eventsOf,
  type Finish,
  foldRecords,
  type JournalRecord,
  LoopState,
  type ParentLink,
  type PendingToolCall,
  type PersistedLoopState,
  type ProjectionOptions,
  type Question,
  type RecordStamp,
  type Stamped,
  TurnError,
  type TurnOutcome,
  type TurnOverrides,
  type TurnRecord,
  type TurnResult,
  type TurnStarted,
  toPersisted,
  type UnfinishedTurn,
} from './core/journal/index.ts';
export { estimateTokens, type TokenCounter } from './core/model-call/index.ts';
export type { Answers, ForkEdits, ForkOptions, Partially, ResultEdit } from './core/options/index.ts';
export type {
  AnswerOptions,
  CancelOptions,
  DiscardedText,
  ForkedTask,
  ObserveOptions,
  ResumeOptions,
  RetryTurnOptions,
  TextOptions,
  Turn,
  TurnStream,
} from './core/turn/index.ts';
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
export { type FolderArtifactStoreOptions, folderArtifactStore } from './stores/artifacts/folder-artifact-store.ts';
export {
  InMemoryArtifactStore,
  type InMemoryArtifactStoreOptions,
} from './stores/artifacts/in-memory-artifact-store.ts';
export type { CacheSetOptions, CacheStore } from './stores/cache/cache-store.ts';
export { InMemoryCacheStore, type InMemoryCacheStoreOptions } from './stores/cache/in-memory-cache-store.ts';
export { StoreFactory } from './stores/factory.ts';
export { InMemoryStateStore } from './stores/memory/in-memory-state-store.ts';
export { InMemoryMessageStore, type InMemoryMessageStoreOptions } from './stores/messages/in-memory-message-store.ts';
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
export { LocalToolProvider } from './tools/local-tools.ts';
export { parseContent } from './tools/parse-content.ts';
export { type Tool, type ToolFactory, tool } from './tools/tool.ts';
export { contentParts } from './tools/tool-content.ts';
export type { ToolOptions } from './tools/tool-options.ts';
export { type TextChunks, writeArtifact } from './tools/write-artifact.ts';
