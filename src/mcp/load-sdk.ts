import { missingPackage } from '../core/contracts/index.ts';

/** The parts of `@modelcontextprotocol/sdk` that a client needs. */
export type ClientSdk = Awaited<ReturnType<typeof importClient>>;

/** The parts that a server needs. */
export type ServerSdk = Awaited<ReturnType<typeof importServer>>;

/** Loads the client of the optional package. Rejects with `MISSING_PACKAGE` where that is not installed. */
export function loadClientSdk(): Promise<ClientSdk> {
  return importClient().catch(missing);
}

/** Loads the server of the optional package. Rejects with `MISSING_PACKAGE` where that is not installed. */
export function loadServerSdk(): Promise<ServerSdk> {
  return importServer().catch(missing);
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
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  return { Server, StdioServerTransport, StreamableHTTPServerTransport, types };
}

function missing(cause: unknown): never {
  throw missingPackage('@modelcontextprotocol/sdk', cause);
}
