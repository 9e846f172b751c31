import { LATEST_PROTOCOL_VERSION } from '@modelcontextprotocol/sdk/types.js';

/** A session over HTTP of MCP, by its bytes. */
export class McpWire {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;

  private constructor(url: string, headers: Readonly<Record<string, string>>) {
    this.#url = url;
    this.#headers = headers;
  }

  static async open(url: string, protocolVersion = LATEST_PROTOCOL_VERSION): Promise<McpWire> {
    const common = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'wire', version: '1' } };
    const response = await new McpWire(url, common).send({ jsonrpc: '2.0', id: 'begin', method: 'initialize', params });
    await response.text();
    const id = response.headers.get('mcp-session-id') ?? '';
    return new McpWire(url, { ...common, 'mcp-session-id': id, 'mcp-protocol-version': protocolVersion });
  }

  send(message: unknown): Promise<Response> {
    return this.sendText(JSON.stringify(message));
  }

  sendText(body: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return fetch(this.#url, { method: 'POST', headers: { ...this.#headers, ...headers }, body });
  }

  call(id: string | number, message: string): Promise<Response> {
    return this.send({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'the_clerk', arguments: { message } },
    });
  }

  /** Ends the session. */
  async close(): Promise<void> {
    await fetch(this.#url, { method: 'DELETE', headers: this.#headers });
  }
}
