import { type Attributes, type Context, trace } from '@opentelemetry/api';
import { attribute } from '../observability/attributes.ts';
import { isHttp } from './check-mcp-options.ts';
import type { McpConnection } from './mcp-connection.ts';
import type { ServerLink } from './server-link.ts';

export interface NotedRequest {
  readonly method: string;
  readonly link: ServerLink;
  readonly connection: McpConnection;
  readonly resourceUri?: string;
}

/** Writes onto the span of the tool call that a server is asked. The id of the session stays out: who knows it can use the session. */
export function noteRequest(traceContext: Context, { method, link, connection, resourceUri }: NotedRequest): void {
  const span = trace.getSpan(traceContext);
  if (!span?.isRecording()) return;
  const version = connection.protocolVersion;
  span.setAttributes({
    [attribute.mcpMethod]: method,
    [attribute.mcpServer]: link.name,
    ...(version !== undefined && { [attribute.mcpProtocolVersion]: version }),
    ...(resourceUri !== undefined && { [attribute.mcpResourceUri]: resourceUri }),
    ...placeOf(link),
  });
}

function placeOf({ server }: ServerLink): Attributes {
  if (!isHttp(server)) return { [attribute.networkTransport]: 'pipe' };
  const { hostname, port, protocol } = new URL(server.url);
  const known = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
  return {
    [attribute.networkTransport]: 'tcp',
    [attribute.serverAddress]: hostname,
    [attribute.serverPort]: known,
  };
}
