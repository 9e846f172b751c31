export type { PushClaimOptions, PushEntry, PushKey, PushProgress, PushStore } from '../stores/push/push-store.ts';
export { InMemoryPushStore } from '../stores/push/table-push-store.ts';
export { remoteAgent } from './client/remote-agent.ts';
export type { RemoteAgentOptions, RemoteAuth, RemoteHeaders } from './client/remote-options.ts';
export { A2AClientTools } from './client-tools.ts';
export {
  agentExtensions,
  clientToolsExtension,
  cursorHeader,
  extensionEventsExtension,
  toolEventsExtension,
  turnExtension,
} from './extensions.ts';
export type { A2ARequestHandlerOptions } from './handler-options.ts';
export type { OwnTask, PushConfigs } from './push-configs.ts';
export type { MessageLimits } from './received-message.ts';
export { type A2AHandler, a2aRequestHandler } from './request-handler.ts';
export type { ScopeOf } from './scope.ts';
export { a2aServer } from './server/a2a-server.ts';
export type { CardOptions } from './server/agent-card.ts';
export { type ApiKey, type ApiKeyAuthOptions, apiKeyAuth } from './server/auth/api-key-auth.ts';
export type { AuthenticatedUser, Authentication, AuthRequest } from './server/auth/authentication.ts';
export { type BearerAuthOptions, bearerAuth } from './server/auth/bearer-auth.ts';
export { type CustomAuthOptions, customAuth } from './server/auth/custom-auth.ts';
export type { CardSigning } from './server/card-signature.ts';
export { type PinoLike, pinoLogger } from './server/pino-logger.ts';
export type { PushOptions, PushSigning } from './server/push/push-options.ts';
export type { RateLimit } from './server/rate-limiter.ts';
export type { A2AAddress, A2AServer } from './server/running-server.ts';
export type { A2AServerOptions, GrpcOptions, ListenOptions } from './server/server-options.ts';
