export { finalOnly } from './agent/agent-events.ts';
export { agentTools } from './agent/agent-tools.ts';
export { agent } from './agent/make-agent.ts';
export { byRole, byRule, inParallel, inSequence, router, supervisor } from './agent/routing.ts';
export { team } from './agent/team.ts';
export { withoutCalls } from './agent/team-options.ts';
export { AgentLoop } from './agent-loop.ts';
export {
  AgentLoopError,
  DoneSignal,
  errorCodes,
  repairHistory,
  systemClock,
  TaskComplete,
  textOf,
} from './core/contracts/index.ts';
export { applyRecord, eventsOf, foldRecords, LoopState, TurnError, toPersisted } from './core/journal/index.ts';
export { estimateTokens } from './core/model-call/index.ts';
export { erase } from './erase.ts';
export { branch } from './extensions/branch.ts';
export {
  carryOver,
  compactConversation,
  compactHistory,
  compactionOf,
  compactionOfTurn,
  isCompactionEvent,
  withCompaction,
} from './extensions/compact-history.ts';
export { gptTokenizer } from './extensions/context/gpt-tokenizer.ts';
export { contextManagement, windowHistory } from './extensions/context-management.ts';
export { eagerTools } from './extensions/eager-tools/eager-tools.ts';
export { doneTool, requireFinishedWork } from './extensions/finish/finish.ts';
export { guardrails } from './extensions/guardrails/guardrails.ts';
export { redactSecrets, secretRedactor } from './extensions/guardrails/redact-secrets.ts';
export { limits } from './extensions/limits/limits.ts';
export { approvals, isSignedApproval, signApproval } from './extensions/permissions/approvals.ts';
export { toolPermissions } from './extensions/permissions/tool-permissions.ts';
export { structuredOutput } from './extensions/structured-output/structured-output.ts';
export { typedInput } from './extensions/structured-output/typed-input.ts';
export { toolOutputCache } from './extensions/tool-output-cache.ts';
export { budget } from './extensions/usage/budget.ts';
export { recordSession } from './extensions/usage/record-session.ts';
export { trackUsage, usageByModel } from './extensions/usage/track-usage.ts';
export { fromAsyncIterable } from './providers/from-async-iterable.ts';
export { ModelRegistry } from './providers/models/model-registry.ts';
export { cacheResponses } from './providers/policies/cache-responses.ts';
export { circuitBreaker } from './providers/policies/circuit-breaker.ts';
export { limitConcurrency, rateLimit } from './providers/policies/limits.ts';
export { fallback, hedge } from './providers/policies/other-provider.ts';
export { composePolicies } from './providers/policies/provider-policy.ts';
export { recordResponses, replayResponses } from './providers/policies/response-cassette.ts';
export { retry } from './providers/policies/retry.ts';
export { timeout } from './providers/policies/timeout.ts';
export { replay } from './replay/replay.ts';
export { stopSignal } from './stop-signal.ts';
export { folderArtifactStore } from './stores/artifacts/folder-artifact-store.ts';
export { InMemoryArtifactStore } from './stores/artifacts/in-memory-artifact-store.ts';
export { InMemoryCacheStore } from './stores/cache/cache-store.ts';
export { StoreFactory } from './stores/factory.ts';
export { InMemoryStateStore } from './stores/memory/in-memory-state-store.ts';
export { InMemoryMessageStore } from './stores/messages/table-message-store.ts';
export { snapshotStateStore } from './stores/snapshot/snapshot-state-store.ts';
export { agentText } from './tasks/turn-stream.ts';
export { artifactTools, writeArtifact } from './tools/artifact-tools.ts';
export { ClientToolProvider } from './tools/client-tool-provider.ts';
export { LocalToolProvider } from './tools/local-tools.ts';
export { tool } from './tools/tool.ts';
export { contentParts, parseContent } from './tools/tool-content.ts';
export { cacheTools, checkedTools } from './tools/wrapped-tools.ts';
export type {
  A2AMessage,
  A2APart,
  Agent,
  AgentEvent,
  AgentLoopConfig,
  AgentOptions,
  AgentRef,
  AgentSetup,
  AgentState,
  AgentTurnOptions,
  AgentUsage,
  Answers,
  ApprovalDecision,
  ApprovalRequest,
  Artifact,
  ArtifactStore,
  ArtifactUpdateEvent,
  AssistantMessage,
  Budget,
  CacheStore,
  ClientToolAnswer,
  Clock,
  Compaction,
  CompactionEvent,
  CompletedTurn,
  Content,
  ContentPart,
  EagerTools,
  ErrorCode,
  Extension,
  ExtensionEvent,
  FilePart,
  FinishReason,
  ForkOptions,
  HookAnswer,
  HookContext,
  ImagePart,
  Interceptors,
  Journal,
  JournalRecord,
  JSONSchema,
  LLMCallParams,
  LLMCapabilities,
  LLMChunk,
  LLMProvider,
  LLMProviderInfo,
  LLMResponse,
  Logger,
  Message,
  MessageStore,
  ModelChoice,
  ModelInfo,
  ObserveOptions,
  OutputSchema,
  Partially,
  PendingToolCall,
  PersistedLoopState,
  PromptFunction,
  ProviderPolicy,
  Question,
  Replay,
  ReplayResult,
  ResponseFormat,
  ResumeOptions,
  RetryPlan,
  RoutingContext,
  RoutingStrategy,
  SessionEntry,
  SignedApproval,
  Snapshot,
  SnapshotStore,
  Stamped,
  StartOptions,
  StatusUpdateEvent,
  StoredMessage,
  StructuredOutput,
  SubAgentEvent,
  SystemMessage,
  TaskState,
  TaskStateStore,
  TaskSummary,
  Team,
  TeamEvent,
  TeamOptions,
  TeamView,
  TextPart,
  TokenCounter,
  Tool,
  ToolCall,
  ToolChoice,
  ToolContext,
  ToolDefinition,
  ToolEvent,
  ToolFactory,
  ToolListContext,
  ToolMessage,
  ToolOptions,
  ToolPolicy,
  ToolProvider,
  ToolResult,
  Turn,
  TurnInput,
  TurnOutcome,
  TurnResult,
  TurnStream,
  TypedInput,
  Usage,
  UsageByModel,
  UsageSummary,
  UserMessage,
  ValueExtension,
  Verdict,
} from './types.ts';
