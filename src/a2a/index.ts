export type { PushClaimOptions, PushEntry, PushKey, PushProgress, PushStore } from '../stores/push/push-store.ts';
export { InMemoryPushStore } from '../stores/push/table-push-store.ts';
export { type RemoteAgentOptions, type RemoteAuth, type RemoteHeaders, remoteAgent } from './client/remote-agent.ts';
export type { VerifyCardOptions } from './client/verify-card.ts';
export {
  A2AClientTools,
  agentExtensions,
  clientToolsExtension,
  cursorHeader,
  extensionEventsExtension,
  toolEventsExtension,
  turnExtension,
} from './extensions.ts';
export type { A2ARequestHandlerOptions, MessageLimits } from './handler-options.ts';
export type { OwnTask, PushConfigs } from './kept-in-stores.ts';
export { queuedCaller } from './queued-turns.ts';
export { type A2AHandler, a2aRequestHandler } from './request-handler.ts';
export { type OwnerOptions, ownersOf, type ScopeOf, type SenderOf } from './scope.ts';
export type { A2AAddress, A2AServer } from './server/a2a-server.ts';
export {
  type A2AServerOptions,
  a2aServer,
  type GrpcOptions,
  type ListenOptions,
  type PinoLike,
  pinoLogger,
} from './server/a2a-server.ts';
export type { RateLimit } from './server/admission.ts';
export type { CardOptions } from './server/agent-card.ts';
export {
  type ApiKey,
  type ApiKeyAuthOptions,
  type AuthenticatedUser,
  type Authentication,
  type AuthRequest,
  apiKeyAuth,
  type CustomAuthOptions,
  customAuth,
} from './server/authentication.ts';
export { type BearerAuthOptions, bearerAuth } from './server/bearer-auth.ts';
export type { CardSigning } from './server/card-signing.ts';
export type { AddedTurn, RouteAgent, RouteHandler, ServerRoute } from './server/fetch-route.ts';
export type { PushOptions, PushSigning } from './server/push/push-sender.ts';
export type { A2ATurnQueue, QueuedStart } from './turn-execution.ts';
