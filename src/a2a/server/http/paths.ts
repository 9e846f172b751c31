/** Where the bindings are, below the address of the server. */
export const jsonRpcPath = '/a2a/jsonrpc';
export const restPath = '/a2a/rest';
