export type { Added, FetchHandler, HandlerLimits, HandlerOptions } from '../handler-options.ts';
export { type OpenAIHandlerOptions, openAIHandler } from './handler.ts';
