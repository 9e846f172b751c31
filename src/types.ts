/** All types of `millrace`. The root exports those that programs name often; the others appear in signatures only. */

export type { Agent } from './agent/agent.ts';
export type {
  AgentNotice,
  AgentState,
  AgentStateEvent,
  MessageReceivedEvent,
  MessageSentEvent,
  NoticeOf,
} from './agent/agent-events.ts';
export type {
  AgentChanges,
  AgentExtension,
  AgentOptions,
  AgentResumeOptions,
  AgentRetryOptions,
  AgentSettings,
  AgentSubmitOptions,
  AgentTurnOptions,
  BusyPolicy,
  Dependencies,
  DependentTools,
  GivenTools,
  KnownTools,
  ModelChoice,
  OtherTools,
  OutputOf,
  PromptFunction,
  RegenerateOptions,
  TurnInput,
  ValueOfTurns,
} from './agent/agent-options.ts';
export type { AgentToolsOptions } from './agent/agent-tools.ts';
export type { UsageSummary } from './agent/lifecycle.ts';
export type { AgentFactory } from './agent/make-agent.ts';
export type { AgentObserveOptions, GivenValues, RecoverOptions, TasksOptions } from './agent/recovery.ts';
export type {
  AgentRef,
  Answered,
  Choice,
  Join,
  LastValue,
  Parallel,
  ParallelOptions,
  RoleOf,
  RoutingContext,
  RoutingRequest,
  RoutingStrategy,
  Rule,
  Sequence,
  Supervised,
  SupervisorOptions,
  Valued,
} from './agent/routing.ts';
export type { RoutedValue, Team, TeamTurnOptions, ToolsOf, ValueOf } from './agent/team.ts';
export type { TeamEvent } from './agent/team-events.ts';
export type { Interceptors, TeamOptions, TeamView } from './agent/team-options.ts';
export type {
  A2AMessage,
  A2APart,
  AgentEvent,
  AgentLoopConfig,
  AgentLoopContext,
  AgentLoopErrorOptions,
  AgentSetup,
  AgentUsage,
  AnswerSource,
  AppendedChunk,
  AppendOptions,
  ApprovalDecision,
  ApprovalRequest,
  ArgumentCheck,
  ArgumentChecker,
  ArgumentChecks,
  Artifact,
  ArtifactChange,
  ArtifactChunk,
  ArtifactContent,
  ArtifactInfo,
  ArtifactPage,
  ArtifactQuery,
  ArtifactStore,
  ArtifactUpdateEvent,
  AskedTask,
  AskOptions,
  AssistantMessage,
  AuthContext,
  CallChange,
  CallSettings,
  CheckpointEvent,
  ChildLink,
  ChunkOptions,
  ClientToolAnswer,
  Clock,
  Command,
  ComparedByMembers,
  Content,
  ContentOf,
  ContentPart,
  ContextMetadata,
  ContextPage,
  ContextQuery,
  ContextSummary,
  Conversation,
  Delta,
  EndChange,
  EngineToolName,
  ErrorCode,
  ErrorData,
  Extension,
  ExtensionErrorEvent,
  ExtensionEvent,
  ExtensionEventKind,
  ExtensionHook,
  ExtensionSetting,
  FailedCall,
  Failure,
  FailureChange,
  FilePart,
  FinishChange,
  FinishReason,
  FollowSignal,
  HookAnswer,
  HookContext,
  ImagePart,
  IterationChange,
  IterationCompleteEvent,
  IterationStartEvent,
  IterationStep,
  IterationView,
  JSONSchema,
  JsonContent,
  Lease,
  LLMCallParams,
  LLMCapabilities,
  LLMChunk,
  LLMProvider,
  LLMProviderInfo,
  LLMResponse,
  LlmAttemptDiscardedEvent,
  LlmCallEvent,
  LlmResponseEvent,
  LlmWarningEvent,
  LoadOptions,
  Logger,
  MaybePromise,
  Message,
  MessagePage,
  MessageQuery,
  MessageStore,
  MessageView,
  MetadataOptions,
  ModelNote,
  NeedsApproval,
  NewArtifact,
  OnInDoubt,
  OnLength,
  OnLimit,
  ParentCall,
  Partially,
  PausedEvent,
  PostOptions,
  ReachedLimit,
  ReadOptions,
  Reasoning,
  ReasoningDeltaEvent,
  Reconciled,
  Recorded,
  RequestChange,
  RequestFittedEvent,
  ResponseChange,
  ResponseFormat,
  ResumedEvent,
  RetryPlan,
  SilenceLimit,
  StartedChild,
  StartOptions,
  StatusUpdateEvent,
  StepCall,
  StepChange,
  StepFailure,
  StepOf,
  StepResult,
  StepResultOf,
  StepSuccess,
  StoreCheck,
  StoredMessage,
  SubAgentEvent,
  SubAgentStep,
  SystemMessage,
  TaskEvent,
  TaskQuery,
  TaskState,
  TaskStateStore,
  TaskStatus,
  TaskSummary,
  TextPart,
  ToolAnswer,
  ToolCall,
  ToolCallChange,
  ToolCallDeltaEvent,
  ToolCallOutcome,
  ToolCallRequest,
  ToolChoice,
  ToolCompleteEvent,
  ToolContext,
  ToolDefinition,
  ToolError,
  ToolEvent,
  ToolFailedEvent,
  ToolListContext,
  ToolMessage,
  ToolOutcomeChange,
  ToolPolicy,
  ToolProgressEvent,
  ToolProvider,
  ToolResult,
  ToolStartEvent,
  ToolSucceededEvent,
  TreeUsage,
  TurnAppendOptions,
  TurnBeginning,
  TurnCallSettings,
  TurnChange,
  TurnEnd,
  TurnFinish,
  Under,
  UpdateOptions,
  Usage,
  UserMessage,
  ValueExtension,
  VendorCall,
  VersionOptions,
} from './core/contracts/index.ts';
export type {
  AgentChanged,
  AgentChoice,
  Answers,
  Approval,
  CallDetails,
  CallHook,
  Changes,
  CommandIds,
  CompletedTurn,
  DecisionPoint,
  Effects,
  EmittedEvent,
  ExtensionRecord,
  Finish,
  ForkOrigin,
  GivenAnswer,
  History,
  Hold,
  JournalRecord,
  LlmDone,
  LlmStart,
  LoopFields,
  ParentLink,
  PendingToolCall,
  PersistedLoopState,
  PersistentArray,
  Predecessor,
  ProjectionOptions,
  Question,
  RecordedCall,
  RecordedHook,
  RecordStamp,
  RetryOrigin,
  Segment,
  ShownOptions,
  Stamped,
  StartedModelCall,
  Submission,
  TerminalRecord,
  ToolIntent,
  ToolResultRecord,
  TraceLink,
  TurnAnswered,
  TurnAsked,
  TurnCanceled,
  TurnDone,
  TurnFailed,
  TurnIdentity,
  TurnOutcome,
  TurnOverrides,
  TurnRecord,
  TurnResult,
  TurnResumed,
  TurnSettings,
  TurnStarted,
  TurnSuspended,
  UnfinishedTurn,
} from './core/journal/index.ts';
export type { TokenCounter } from './core/model-call/index.ts';
export type { Erased, EraseOptions, EraseStores } from './erase.ts';
export type { BranchBase, BranchOptions, TurnStarter } from './extensions/branch.ts';
export type { CompactionEvent, ContextTurns } from './extensions/compact-history.ts';
export type { Compaction } from './extensions/context/compaction.ts';
export type { CompactionOptions } from './extensions/context/compaction-options.ts';
export type { GptTokenizerOptions } from './extensions/context/gpt-tokenizer.ts';
export type { ContextManagementOptions, WindowOptions } from './extensions/context-management.ts';
export type { EagerTools } from './extensions/eager-tools/eager-tools.ts';
export type { DoneToolOptions, FinishedWorkOptions } from './extensions/finish/finish.ts';
export type {
  Block,
  GuardrailsOptions,
  InputGuardrail,
  OutputContext,
  OutputGuardrail,
  OutputReplacement,
  Replacement,
  ToolCallGuardrail,
  Verdict,
} from './extensions/guardrails/guardrails.ts';
export type { RedactSecretsOptions } from './extensions/guardrails/redact-secrets.ts';
export type { LimitReason } from './extensions/limits/broken-limit.ts';
export type { LimitsOptions } from './extensions/limits/limits.ts';
export type { ApprovalsOptions, DecisionOn, SignedApproval } from './extensions/permissions/approvals.ts';
export type { PermissionRule, ToolPermissionsOptions } from './extensions/permissions/tool-permissions.ts';
export type {
  OutputMode,
  OutputSchema,
  StructuredOutputOptions,
} from './extensions/structured-output/output-options.ts';
export type { StructuredOutput } from './extensions/structured-output/structured-output.ts';
export type {
  InputOf,
  InputSchema,
  TypedInput,
  TypedInputOptions,
} from './extensions/structured-output/typed-input.ts';
export type { ToolOutputCacheOptions } from './extensions/tool-output-cache.ts';
export type { Budget, BudgetExtensionOptions, BudgetOptions } from './extensions/usage/budget.ts';
export type { RecordSessionOptions, SessionEntry, SessionEntryOf } from './extensions/usage/record-session.ts';
export type { ModelUsage, TrackUsageOptions, UsageByModel } from './extensions/usage/track-usage.ts';
export type { ForkEdits, ForkOptions, ResultEdit } from './options/turn-options.ts';
export type { IterationScope } from './providers/from-async-iterable.ts';
export type { ModelAbilities, ModelInfo, ModelPrices, PriceList, TokenPrices } from './providers/models/model-info.ts';
export type { CacheResponsesOptions } from './providers/policies/cache-responses.ts';
export type { CircuitBreakerOptions } from './providers/policies/circuit-breaker.ts';
export type { LimitConcurrencyOptions, RateLimitOptions } from './providers/policies/limits.ts';
export type { FallbackOptions, HedgeOptions } from './providers/policies/other-provider.ts';
export type { ProviderPolicy } from './providers/policies/provider-policy.ts';
export type { RecordResponsesOptions, ReplayResponsesOptions } from './providers/policies/response-cassette.ts';
export type { RetryOptions } from './providers/policies/retry.ts';
export type { TimeoutOptions } from './providers/policies/timeout.ts';
export type { Deviation } from './replay/recording.ts';
export type { Journal, Replay, ReplayConfig, ReplayOptions, ReplayResult } from './replay/replay.ts';
export type { FolderArtifactStoreOptions } from './stores/artifacts/folder-artifact-store.ts';
export type { InMemoryArtifactStoreOptions } from './stores/artifacts/in-memory-artifact-store.ts';
export type { CacheSetOptions, CacheStore, InMemoryCacheStoreOptions } from './stores/cache/cache-store.ts';
export type {
  ArtifactStoreOptions,
  CacheStoreOptions,
  MessageStoreOptions,
  StateStoreOptions,
} from './stores/factory.ts';
export type { InMemoryStateStoreOptions } from './stores/memory/in-memory-state-store.ts';
export type { InMemoryMessageStoreOptions } from './stores/messages/table-message-store.ts';
export type { PushClaimOptions, PushEntry, PushKey, PushProgress, PushStore } from './stores/push/push-store.ts';
export type { Snapshot, SnapshotStateStoreOptions, SnapshotStore } from './stores/snapshot/snapshot-state-store.ts';
export type { ResumeOptions, RetryTurnOptions } from './tasks/agent-loop.ts';
export type { ForkedTask, SubmitOptions, SubmittedTask } from './tasks/create-task.ts';
export type { CountsFor, Steered } from './tasks/steered.ts';
export type { AnswerOptions, CancelOptions } from './tasks/task-commands.ts';
export type { Turn } from './tasks/turn.ts';
export type { AgentText, DiscardedText, ObserveOptions, TextOptions, TurnStream } from './tasks/turn-stream.ts';
export type { TextChunks } from './tools/artifact-tools.ts';
export type { Tool, ToolFactory } from './tools/tool.ts';
export type { ContentParts } from './tools/tool-content.ts';
export type {
  Arguments,
  ArgumentsOf,
  BatchExecution,
  BatchedCall,
  BatchResults,
  FromJsonSchema,
  RawArguments,
  SingleExecution,
  ToolDescription,
  ToolOptions,
  ToolParameters,
} from './tools/tool-options.ts';
export type { CacheScope, CacheToolsOptions } from './tools/wrapped-tools.ts';
