import { missingPackage } from '../core/contracts/index.ts';

/** What a client needs of `@modelcontextprotocol/client`. */
export type ClientSdk = Awaited<ReturnType<typeof importClient>>;

/** The parts that a server needs. */
export type ServerSdk = Awaited<ReturnType<typeof importServer>>;

/** Loads the optional package of the client. Rejects with `MISSING_PACKAGE` where that is not installed. */
export function loadClientSdk(): Promise<ClientSdk> {
  return importClient().catch((cause: unknown) => {
    throw missingPackage('@modelcontextprotocol/client', cause);
  });
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
  const client = await import('@modelcontextprotocol/client');
  const { getDefaultEnvironment } = await import('@modelcontextprotocol/client/stdio');
  const { Client, StreamableHTTPClientTransport, ProtocolError, SdkError, SdkHttpError } = client;
  const { InsufficientScopeError, OAuthError, ReadBuffer, serializeMessage, specTypeSchemas, UnauthorizedError } =
    client;
  const { auth, checkResourceAllowed, computeScopeUnion, isStrictScopeSuperset, resourceUrlFromServerUrl } = client;
  const { discoverOAuthServerInfo, exchangeAuthorization, extractWWWAuthenticateParams, refreshAuthorization } = client;
  const { registerClient, resolveClientMetadata, startAuthorization } = client;
  const { validateAuthorizationResponseIssuer, withDpopFromProvider } = client;
  return {
    Client,
    StreamableHTTPClientTransport,
    ProtocolError,
    SdkError,
    SdkHttpError,
    InsufficientScopeError,
    OAuthError,
    UnauthorizedError,
    auth,
    checkResourceAllowed,
    computeScopeUnion,
    discoverOAuthServerInfo,
    exchangeAuthorization,
    extractWWWAuthenticateParams,
    isStrictScopeSuperset,
    refreshAuthorization,
    registerClient,
    resolveClientMetadata,
    resourceUrlFromServerUrl,
    startAuthorization,
    validateAuthorizationResponseIssuer,
    withDpopFromProvider,
    ReadBuffer,
    serializeMessage,
    specTypeSchemas,
    getDefaultEnvironment,
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
