export type { ProfileName } from '../providers/profiles.ts';
export { type ArtifactStoreContractHarness, artifactStoreContract } from './artifact-store-contract.ts';
export { type AsyncStoreOptions, asyncStore } from './async-store.ts';
export { type CacheStoreContractHarness, cacheStoreContract } from './cache-store-contract.ts';
export { type Cassette, loadCassette, type RecordTurnOptions, recordTurn } from './cassette.ts';
export type { ContractRunner } from './contract/define-contract.ts';
export { type DemoLLMOptions, demoLLM } from './demo-llm.ts';
export { demoModel } from './demo-model.ts';
export { type FakeClock, type FakeClockOptions, fakeClock } from './fake-clock.ts';
export {
  type AnsweringMethod,
  type FailingCall,
  type FailingReader,
  faultyStore,
  type Gate,
  gate,
  type HeldCall,
  type StoreFault,
} from './fault-injection.ts';
export { openResources, type ResourceCounts, type ResourceLedger, type SettleOptions } from './ledger.ts';
export { type MessageStoreContractHarness, messageStoreContract } from './message-store-contract.ts';
export type {
  ChatCall,
  ChatMessage,
  ChatRequest,
  ModelReply,
  OfferedTool,
  ReplyCall,
} from './model-server/chat-request.ts';
export type {
  AnswerStep,
  RefusalStep,
  ScriptCall,
  ScriptedAnswer,
  ScriptStep,
  StepGate,
} from './model-server/exchange.ts';
export type { ChatBody } from './model-server.ts';
export {
  type ModelServer,
  type ModelServerOptions,
  modelServer,
  startModelServer,
} from './model-server.ts';
export type { LLMStep, LLMStepCall, ScriptedLLMStep } from './scripted-llm.ts';
export { type ScriptedLLM, type ScriptedLLMOptions, scriptedLLM } from './scripted-llm.ts';
export { recordSpans, type SpanRecorder } from './span-recorder.ts';
export { type StoreContractHarness, storeContract } from './store-contract.ts';
