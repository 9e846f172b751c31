export { type AgUiOptions, agUiEvents } from './ag-ui-events.ts';
export { agUiHandler } from './ag-ui-handler.ts';
export type {
  AgUiEvent,
  AgUiInterrupt,
  AgUiMessage,
  AgUiOfMessage,
  AgUiOutcome,
  AgUiToolCall,
  AgUiUsage,
} from './ag-ui-types.ts';
export {
  type EventSource,
  respondWithSSE,
  toAgUI,
  toAgUIResponse,
  toSSE,
  toSSEResponse,
  toUIMessageStream,
  toUIMessageStreamResponse,
} from './event-stream.ts';
export type { Added, FetchHandler, HandlerLimits, HandlerOptions } from './handler-options.ts';
export { type PlainEvent, plainEvents } from './plain-events.ts';
export { type StreamOptions, sentenceOf } from './stream-options.ts';
export type { UICallError, UIChunk, UIMessageMetadata, UIResult, UITool, UIVoid } from './ui-chunks.ts';
export { type UIMessageOptions, uiMessageChunks } from './ui-message-chunks.ts';
export { type UIMessageHandlerOptions, uiMessageHandler } from './ui-message-handler.ts';
