export { A2AClientTools } from './client-tools.ts';
export {
  agentExtensions,
  clientToolsExtension,
  cursorHeader,
  toolEventsExtension,
  turnExtension,
} from './extensions.ts';
export type { A2ARequestHandlerOptions } from './handler-options.ts';
export type { OwnTask, PushConfigs } from './push-configs.ts';
export type { MessageLimits } from './received-message.ts';
export { type A2AHandler, a2aRequestHandler } from './request-handler.ts';
export type { ScopeOf } from './scope.ts';
