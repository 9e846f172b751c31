export type { FetchHandler, HandlerLimits, HandlerOptions } from '../handler-options.ts';
export { type OpenAIHandlerOptions, openAIHandler } from './handler.ts';
