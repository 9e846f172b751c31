// What tests use beside the entries of the package, as `millrace/internals` (tsconfig.json, `tests/build-entries.mjs`).

export { resolveRemote } from '../src/a2a/client/remote-agent.ts';
export { isUnavailable, remoteError } from '../src/a2a/client/remote-errors.ts';
export { ProgressWatch, RemoteTask } from '../src/a2a/client/remote-task.ts';
export { defaultLimits, resolveLimits } from '../src/a2a/handler-options.ts';
export { KeptBytes, type ToKeep } from '../src/a2a/kept-bytes.ts';
export { KeptInStores, type StoresOfKept } from '../src/a2a/kept-in-stores.ts';
export { limitOf, protocolErrors } from '../src/a2a/protocol-errors.ts';
export { Scope } from '../src/a2a/scope.ts';
export { assertServerOptions } from '../src/a2a/server/a2a-server.ts';
export { RateLimiter } from '../src/a2a/server/admission.ts';
export { checkedLookup } from '../src/a2a/server/push/push-target.ts';
export { Agent } from '../src/agent/agent.ts';
export { eventKinds } from '../src/agent/agent-events.ts';
export { agentToolName } from '../src/agent/agent-tools.ts';
export { conversationName, settleTurnsAhead } from '../src/agent/open-turns.ts';
export { fittingMessages, storeTurn } from '../src/agent/store-turn.ts';
export { Team } from '../src/agent/team.ts';
export { taskIdOf } from '../src/batch/batch-item.ts';
export { BodyCounter } from '../src/body-limits.ts';
export { newId, parsedList, titleOf, withChat } from '../src/chat/page/chat-list.ts';
export { type MarkNode, markdownOf, safeAddress } from '../src/chat/page/markdown.ts';
export { answersOf, questionsIn } from '../src/chat/page/open-questions.ts';
export { eventsOf } from '../src/chat/page/server-sent-events.ts';
export { httpUrl, parseAnswers, wholeNumber } from '../src/cli/arguments.ts';
export { columnsOf, cut, LiveRegion, pad, WordWrap, wrapLines } from '../src/cli/columns.ts';
export { type CommandHost, Interruption } from '../src/cli/command-host.ts';
export { foldOpenText, interruptedMessage } from '../src/cli/commands/chat-command.ts';
export { standingLines } from '../src/cli/commands/show-command.ts';
export { ledgerRows, note, readLedger, verdictOf } from '../src/cli/demo/demo-tools.ts';
export { addToTally, emptyTally, endingOf, sentenceOf, tallyLine } from '../src/cli/ending.ts';
export { duration, elapsed, oneLine, resultLine, withoutControls } from '../src/cli/format.ts';
export { serveInspector } from '../src/cli/inspect-server.ts';
export { type Entry, type LineSource, PipedLines, TypedLines } from '../src/cli/line-source.ts';
export { withLogins } from '../src/cli/mcp-login.ts';
export { mcpServers } from '../src/cli/mcp-servers.ts';
export { type ModelFlags, modelSettings } from '../src/cli/model.ts';
export { keepFlags, quoted, resumeCommand, watchCommand, withKeptFlags } from '../src/cli/next-commands.ts';
export { eventLine, JsonPrinter, TextPrinter } from '../src/cli/printer.ts';
export { runProgram } from '../src/cli/program.ts';
export {
  foldProgress,
  idle,
  type Progress,
  plainStart,
  progressLines,
  takeFinished,
  toolRowLine,
  toolRowLines,
} from '../src/cli/progress.ts';
export {
  answerCommand,
  answerHint,
  isSecret,
  questionBlock,
  questionLines,
  showWaiting,
  typedAnswer,
} from '../src/cli/questions.ts';
export { serveLogger } from '../src/cli/served-agent.ts';
export { queueLogger } from '../src/cli/session.ts';
export { openStore, shownStore, storeSettings, storeWarnings } from '../src/cli/store.ts';
export {
  complain,
  createStyle,
  type Environment,
  note as noteLine,
  Output,
  type OutputStream,
  openTerminal,
  section,
  type Terminal,
  wantsColor,
  wantsUnicode,
} from '../src/cli/terminal.ts';
export { headLines, type TimelineTree, timelineLines, withChildren } from '../src/cli/timeline.ts';
export { builtInTools } from '../src/cli/tools/built-in-tools.ts';
export { calculateTool } from '../src/cli/tools/calculate.ts';
export { currentTimeTool } from '../src/cli/tools/current-time.ts';
export { decodeText, listFilesTool, readFileTool, searchFilesTool } from '../src/cli/tools/file-tools.ts';
export { Workspace, type WorkspaceOptions } from '../src/cli/tools/workspace.ts';
export type { TurnFlags } from '../src/cli/turn-flags.ts';
export { loadAgent, loadTools } from '../src/cli/user-modules.ts';
export { messageOf, missingPackage } from '../src/core/contracts/errors.ts';
export { innermostQuestion } from '../src/core/contracts/innermost-question.ts';
export {
  addUsage,
  checkChangedMessages,
  checkMessages,
  missingResult,
  Pairing,
  pairedMessages,
} from '../src/core/contracts/messages.ts';
export { taskIdPattern } from '../src/core/contracts/store.ts';
export type { ArgumentChecks } from '../src/core/contracts/tool.ts';
export type { MaybePromise } from '../src/core/contracts/values.ts';
export { JsonCounter } from '../src/core/contracts/values.ts';
export { type AskedHookName, type HookTable, hookNames, hookTable } from '../src/core/hooks/hook-table.ts';
export { commitOf, replayOf } from '../src/core/journal/commit.ts';
export { EventProjector, GrowingText } from '../src/core/journal/event-projector.ts';
export type { RecordedHook } from '../src/core/journal/extension-record.ts';
export { CommandIds, History, isInstruction, PersistentArray } from '../src/core/journal/history.ts';
export { openQuestions } from '../src/core/journal/questions.ts';
export { isKnownType, kindOf } from '../src/core/journal/record-table.ts';
export {
  isTerminal,
  type LlmDone,
  type LlmStart,
  type TerminalRecord,
  type ToolIntent,
  type ToolResultRecord,
} from '../src/core/journal/records.ts';
export { whenReady } from '../src/core/journal/store-answer.ts';
export { taskState } from '../src/core/journal/turn-result.ts';
export { ModelSilence } from '../src/core/model-call/limits.ts';
export { summaryFallback } from '../src/core/model-call/response.ts';
export { estimatePromptTokens, tokenCounter } from '../src/core/model-call/usage.ts';
export { TurnNode } from '../src/core/ownership/child-turns.ts';
export { Inbox } from '../src/core/ownership/inbox.ts';
export { journal } from '../src/core/ownership/journal-line.ts';
export { keepLease, LeaseHold, releaseLease } from '../src/core/ownership/lease.ts';
export { AbortScope } from '../src/core/streams/abort-scope.ts';
export { fuse, type Handlers, operate, type Sink, Stage, staged, switchOnce } from '../src/core/streams/operate.ts';
export { Backoff, pause, settled, Timer, unlessAborted, within } from '../src/core/streams/wait.ts';
export { Deadlines } from '../src/core/tool-call/call-limits.ts';
export { type CallBatch, RunningTool, type ToolCallRun, type ToolSignal } from '../src/core/tool-call/running-tool.ts';
export { executeTools } from '../src/core/tool-call/tool-operators.ts';
export { refusedCall } from '../src/core/tool-call/tool-results.ts';
export { collectTools, ToolSet } from '../src/core/tool-call/tool-set.ts';
export { runIteration } from '../src/core/turn/iteration.ts';
export { loopIterations } from '../src/core/turn/loop.ts';
export { Run } from '../src/core/turn/run.ts';
export { followCommands } from '../src/core/turn/run-operators.ts';
export { type SharedTurn, shareTurn } from '../src/core/turn/share-turn.ts';
export { summaryMessage } from '../src/extensions/context/compaction.ts';
export { cutHistory, type HistoryLimits } from '../src/extensions/context/cut-history.ts';
export { headAndTail, trimToolOutputs } from '../src/extensions/context/trim-tool-outputs.ts';
export { calibrate } from '../src/extensions/context/turn-tokens.ts';
export { partialJson } from '../src/extensions/structured-output/partial-output.ts';
export { jsonValues, ObjectStart, withoutAbsent } from '../src/extensions/structured-output/read-json.ts';
export { StructuredOutput } from '../src/extensions/structured-output/structured-output.ts';
export { parseXml } from '../src/extensions/structured-output/xml/parse-xml.ts';
export { escapeText, toXml, xmlTemplate } from '../src/extensions/structured-output/xml/write-xml.ts';
export { Sweep } from '../src/fleet/sweep.ts';
export { FleetQueue } from '../src/fleet/turn-queue.ts';
export { guardedLogger } from '../src/guarded-logger.ts';
export { extendTimeline, type Timeline, timelineOf } from '../src/inspect/timeline.ts';
export { loadClientSdk } from '../src/mcp/load-sdk.ts';
export { askClient, type CallingClient } from '../src/mcp/server/ask-client.ts';
export { checkListening } from '../src/mcp/server/http-listener.ts';
export { SessionEvents } from '../src/mcp/server/session-events.ts';
export { exposedName } from '../src/mcp/server-tool.ts';
export { policyOfTool } from '../src/mcp/server-tools.ts';
export { signInFetch } from '../src/mcp/sign-in/sign-in-fetch.ts';
export { withLock } from '../src/mcp/sign-in/store-lock.ts';
export { httpTransport } from '../src/mcp/transports.ts';
export { attribute } from '../src/observability/attributes.ts';
export { earlierRuns, type LostSpan } from '../src/observability/lost-runs.ts';
export { defaultOtlpEndpoint, otlpTracesUrl, shownUrl } from '../src/observability/otel-environment.ts';
export {
  finishLlmSpan,
  finishToolSpan,
  startLlmSpan,
  startToolSpan,
  startToolsSpan,
  usageOnSpan,
} from '../src/observability/spans/call-spans.ts';
export { idBelow } from '../src/observability/spans/chosen-ids.ts';
export { contentJson, contentText, inputContent, outputContent } from '../src/observability/spans/content.ts';
export { restoreSpans } from '../src/observability/spans/restore-spans.ts';
export {
  finishExecuteSpan,
  finishTurnSpan,
  startExecuteSpan,
  startLoopIterationSpan,
  startTurnSpan,
} from '../src/observability/spans/run-spans.ts';
export {
  cancelSpan,
  failSpan,
  startChildSpan,
  type TracingOptions,
  type TurnIds,
  type TurnTracing,
  turnTracing,
} from '../src/observability/spans/tracing-options.ts';
export { resolveConfig } from '../src/options/config.ts';
export type { SdkModel } from '../src/providers/ai-sdk/sdk-model.ts';
export { vendors } from '../src/providers/ai-sdk/vendors.ts';
export { CallIds, CallNames } from '../src/providers/call-names.ts';
export { answerEnd, finishMeaning } from '../src/providers/finish-words.ts';
export { fitRequest } from '../src/providers/fit-request.ts';
export {
  fitOutputSchema,
  fitToolDescription,
  fitToolSchema,
  type SchemaRules,
  schemaDialects,
  schemaFlaws,
} from '../src/providers/fit-schema.ts';
export { knownModels } from '../src/providers/models/known-models.ts';
export { costOf } from '../src/providers/models/model-info.ts';
export { type SseEvent, sseDecoder } from '../src/providers/openai-wire/answer-sink.ts';
export { type ChatDialect, chatRequest } from '../src/providers/openai-wire/chat-request.ts';
export { httpError, modelServer, networkError } from '../src/providers/openai-wire/wire-errors.ts';
export { RateWindow } from '../src/providers/policies/limits.ts';
export { keyOf, requestOf } from '../src/providers/policies/request-key.ts';
export { redactChunks } from '../src/providers/policies/response-cassette.ts';
export { backoffMs } from '../src/providers/policies/retry.ts';
export { profileNames, profileOf } from '../src/providers/profiles.ts';
export { failureIn, readFailure } from '../src/providers/read-failure.ts';
export { UsageReader, withCost } from '../src/providers/read-usage.ts';
export { RefusedItems } from '../src/providers/refused-items.ts';
export { requestFlaws, seenRequest } from '../src/providers/request-flaws.ts';
export { isPublicAddress } from '../src/public-address.ts';
export { isSecretName, redactMembers, withoutSecrets } from '../src/redaction.ts';
export { type Replayed, recordedAnswers, type UnnamedHooks } from '../src/replay/recorded-extensions.ts';
export { withReason } from '../src/replay/recording.ts';
export { Replay } from '../src/replay/replay.ts';
export { fileNameOf, idOfFileName } from '../src/stores/artifacts/folder-files.ts';
export { cacheKeyHash } from '../src/stores/cache/cache-store.ts';
export { messageStoreArguments } from '../src/stores/check-arguments.ts';
export { mergedDelta } from '../src/stores/deltas.ts';
export type { StateStoreOptions } from '../src/stores/factory.ts';
export { formatJournal, parseJournal } from '../src/stores/journal-file.ts';
export { LmdbDatabase, LmdbTable } from '../src/stores/lmdb/lmdb-database.ts';
export { Openings } from '../src/stores/lmdb/open-lmdb.ts';
export { TaskTable } from '../src/stores/lmdb/task-table.ts';
export type { InMemoryStateStoreOptions } from '../src/stores/memory/in-memory-state-store.ts';
export { TableMessageStore } from '../src/stores/messages/table-message-store.ts';
export { PostgresDatabase } from '../src/stores/postgres/postgres-database.ts';
export { PostgresTable } from '../src/stores/postgres/postgres-side-stores.ts';
export { listStatement } from '../src/stores/postgres/task-rows.ts';
export { runArtifactScript } from '../src/stores/redis/redis-artifact-store.ts';
export { openClient, RedisConnection } from '../src/stores/redis/redis-connection.ts';
export { redisStoreSettings } from '../src/stores/redis/redis-options.ts';
export { parentIn } from '../src/stores/store-rules.ts';
export { SortedParts } from '../src/stores/table/sorted-parts.ts';
export {
  awaited,
  type Body,
  found,
  type KeyPart,
  MemoryTable,
  type Rows,
  type Table,
  type TableKey,
  type TableRange,
} from '../src/stores/table/table.ts';
export { groupOf } from '../src/stores/task-summary.ts';
export { AgentLoop } from '../src/tasks/agent-loop.ts';
export { iterateEvents } from '../src/tasks/read-events.ts';
export { answerTask } from '../src/tasks/task-commands.ts';
export { Turn } from '../src/tasks/turn.ts';
export { eventsAfter } from '../src/tasks/turn-stream.ts';
export { randomChunks } from '../src/testing/artifact-store-contract/artifact-cases.ts';
export {
  failsWith,
  notText,
  type Reading,
  refuses,
  refusesWrongArguments,
  watch,
} from '../src/testing/contract/define-contract.ts';
export { chatRequestOf } from '../src/testing/model-server/chat-request.ts';
export {
  backoff,
  callsOfChildren,
  done,
  llmAnswer,
  llmStart,
  note as noteRecord,
  Owner,
  seqsOf,
  startRecord,
  suspended,
  textDelta,
  upTo,
  wholeTurn,
} from '../src/testing/store-contract/journal-fixture.ts';
export { verifyJsonSchema } from '../src/tools/json-schema-engine.ts';
export { plainProblems } from '../src/tools/plain-problems.ts';
export { isPlainSchema, plainTest } from '../src/tools/plain-schema.ts';
export { foreignSchemaChecker, jsonSchemaChecker, jsonSchemaChecks, problemOf } from '../src/tools/schema-checks.ts';
export { toContent } from '../src/tools/tool-content.ts';
export type { FromJsonSchema } from '../src/tools/tool-options.ts';
export { type ArgumentsOf, assertToolOptions, type RawArguments } from '../src/tools/tool-options.ts';
export { SentText } from '../src/ui/openai/wire.ts';
export { visibleText } from '../src/ui/visible-text.ts';
export { packageVersion } from '../src/version.ts';
