export type {
  McpAnnotations,
  McpElicitationOptions,
  McpHeaders,
  McpHttpOptions,
  McpNeedsApproval,
  McpProcessOptions,
  McpProtocol,
  McpReconnectOptions,
  McpSamplingOptions,
  McpServerOptions,
  McpToolInfo,
  McpToolsOptions,
} from './mcp-options.ts';
export { type McpTools, mcpTools } from './mcp-tools.ts';
export type { Listening, ListenOptions } from './server/http-listener.ts';
export { type McpServer, type McpServerSettings, mcpServer, type StdioStreams } from './server/mcp-server.ts';
export type { McpTokenOptions } from './server/token-auth.ts';
export type { McpAuth, McpAuthStore, McpOAuthOptions, McpProviderOptions } from './sign-in/auth-options.ts';
export { fileAuthStore, memoryAuthStore } from './sign-in/auth-options.ts';
