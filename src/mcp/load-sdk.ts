import { missingPackage } from '../core/contracts/index.ts';

/** The parts of `@modelcontextprotocol/sdk` that a client needs. */
export type ClientSdk = Awaited<ReturnType<typeof importClient>>;

/** The parts that a server needs. */
export type ServerSdk = Awaited<ReturnType<typeof importServer>>;

/** Loads the client of the optional package. Rejects with `MISSING_PACKAGE` where that is not installed. */
export function loadClientSdk(): Promise<ClientSdk> {
  return importClient().catch(missing);
}

/** What HTTP needs besides. */
export type NodeSdk = Awaited<ReturnType<typeof importNode>>;

/** Loads the server of the optional package. Rejects with `MISSING_PACKAGE` where that is not installed. */
export function loadServerSdk(): Promise<ServerSdk> {
  return importServer().catch((cause: unknown) => {
    throw missingPackage('@modelcontextprotocol/server', cause);
  });
}

/** Loads what a server needs for HTTP. Rejects with `MISSING_PACKAGE` where that is not installed. */
export function loadNodeSdk(): Promise<NodeSdk> {
  return importNode().catch((cause: unknown) => {
    throw missingPackage('@modelcontextprotocol/node', cause);
  });
}

async function importClient() {
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { getDefaultEnvironment } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { ReadBuffer, serializeMessage } = await import('@modelcontextprotocol/sdk/shared/stdio.js');
  const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { StreamableHTTPClientTransport, StreamableHTTPError } = http;
  return {
    Client,
    StreamableHTTPClientTransport,
    StreamableHTTPError,
    getDefaultEnvironment,
    ReadBuffer,
    serializeMessage,
    types,
  };
}

async function importServer() {
  const {
    CLIENT_CAPABILITIES_META_KEY,
    createMcpHandler,
    createRequestStateCodec,
    INVALID_PARAMS,
    isJSONRPCRequest,
    isJsonContentType,
    isLegacyRequest,
    ProtocolError,
    Server,
    specTypeSchemas,
  } = await import('@modelcontextprotocol/server');
  const { StdioServerTransport, serveStdio } = await import('@modelcontextprotocol/server/stdio');
  return {
    CLIENT_CAPABILITIES_META_KEY,
    createMcpHandler,
    createRequestStateCodec,
    INVALID_PARAMS,
    isJSONRPCRequest,
    isJsonContentType,
    isLegacyRequest,
    ProtocolError,
    Server,
    serveStdio,
    specTypeSchemas,
    StdioServerTransport,
  };
}

async function importNode() {
  const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = await import('@modelcontextprotocol/node');
  return { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest };
}

function missing(cause: unknown): never {
  throw missingPackage('@modelcontextprotocol/sdk', cause);
}
