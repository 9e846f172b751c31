import type { CallToolResult, ElicitResult, InputRequiredResult } from '@modelcontextprotocol/server';

interface CallParams {
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly inputResponses?: Readonly<Record<string, ElicitResult>>;
  readonly requestState?: string | undefined;
}

interface Answer {
  readonly status: number;
  readonly result?: CallToolResult & Partial<InputRequiredResult>;
  readonly error?: { readonly code: number; readonly data?: unknown };
}

/** Calls of the tool `the_clerk` in the revision 2026-07-28, by their bytes. Questions are not answered by themselves. */
export class ModernWire {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  #id = 0;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.#url = url;
    this.#headers = headers;
  }

  async call(params: CallParams, signal?: AbortSignal): Promise<Answer> {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'wire', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {}, url: {} } },
    };
    const response = await fetch(this.#url, {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'the_clerk',
        ...this.#headers,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: ++this.#id,
        method: 'tools/call',
        params: { name: 'the_clerk', ...params, _meta },
      }),
      signal: signal ?? null,
    });
    const text = await response.text();
    const last = text.split('\n').findLast((line) => line.startsWith('data: '));
    return { status: response.status, ...JSON.parse(last?.slice('data: '.length) ?? text) };
  }
}
