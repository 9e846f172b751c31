export type {
  McpAnnotations,
  McpElicitationOptions,
  McpHeaders,
  McpHttpOptions,
  McpNeedsApproval,
  McpProcessOptions,
  McpReconnectOptions,
  McpSamplingOptions,
  McpServerOptions,
  McpToolInfo,
  McpToolsOptions,
} from './mcp-options.ts';
export { type McpTools, mcpTools } from './mcp-tools.ts';
