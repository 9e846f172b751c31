import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AgentLoop } from 'millrace/internals';
import type { McpProtocol, McpServerOptions, McpTools } from 'millrace/mcp';
import { recordSpans, scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { callOf, type SdkServer, toolsOf } from '../mcp/sdk-server.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { freePort } from '../stores/redis/free-port.ts';
import { thrownBy } from '../tools/thrown.ts';
import { describeReal, realPart } from './real-part.ts';
import { RealProcess } from './real-process.ts';

const script = fileURLToPath(new URL('mcp-python/server.py', import.meta.url));

type Row = readonly [kind: 'mcp' | 'fastmcp', way: 'stdio' | 'http'];
const rows: readonly Row[] = [
  ['mcp', 'http'],
  ['mcp', 'stdio'],
  ['fastmcp', 'http'],
  ['fastmcp', 'stdio'],
];
const protocols: readonly (readonly [McpProtocol, string])[] = [
  ['legacy', '2025-11-25'],
  ['auto', '2026-07-28'],
];

/** A server of `mcp-python/server.py`: over HTTP it runs, over stdio each client starts its own. */
class PythonServer implements SdkServer {
  readonly options: McpServerOptions;
  readonly #ledger: string;
  readonly #start: () => Promise<RealProcess | undefined>;
  #process: RealProcess | undefined;

  constructor([kind, way]: Row, port: number, more: Readonly<Record<string, string>> = {}) {
    this.#ledger = join(mkdtempSync(join(tmpdir(), 'mcp-python-')), 'ledger');
    const { bin = 'python3' } = realPart('mcp-python');
    const env = { LEDGER: this.#ledger, ...more };
    const url = `http://127.0.0.1:${port}/mcp`;
    this.options = way === 'http' ? { url } : { command: bin, args: [script, kind, way], env };
    this.#start = async () => {
      if (way === 'stdio') return undefined;
      const server = new RealProcess(bin, [script, kind, String(port)], env);
      await server.ready('The Python server', async () => (await fetch(url)).status > 0);
      return server;
    };
  }

  async start(): Promise<void> {
    this.#process = await this.#start();
  }

  ledger(): readonly string[] {
    return readFileSync(this.#ledger, { encoding: 'utf8', flag: 'a+' }).trim().split('\n');
  }

  count(line: string): number {
    return this.ledger().filter((each) => each.startsWith(line)).length;
  }

  async close(): Promise<void> {
    await this.#process?.close();
  }
}

for (const row of rows) {
  describeReal(['mcp-python'], `mcpTools with a server made with ${row[0]}, over ${row[1]}`, () => {
    let server: PythonServer;
    const open: McpTools[] = [];
    const programs = new ChildPrograms('tests/mcp/children');
    const stores = new TemporaryStores();
    const client = (more: Partial<McpServerOptions> = {}): McpTools => {
      const tools = toolsOf(server, more);
      open.push(tools);
      return tools;
    };

    beforeAll(async () => {
      server = new PythonServer(row, await freePort());
      await server.start();
    });
    afterEach(async () => {
      await Promise.all(open.splice(0).map((each) => each.close()));
    });
    afterAll(async () => {
      await Promise.all([programs.clear(), stores.clear(), server.close()]);
    });

    it.each(protocols)(
      'P-01 protocol "%s": structured content, a picture, progress, an error and a resource, and the span names %s',
      async (protocol, revision) => {
        const tools = client({ protocol, resources: true });
        const spans = recordSpans();
        try {
          const span = trace.getTracer('test').startSpan('tool[add]', {}, ROOT_CONTEXT);
          const traceContext = trace.setSpan(ROOT_CONTEXT, span);
          const { content } = await callOf(tools, 'add', { arguments: { a: 2, b: 3 }, traceContext });
          expect(JSON.parse(String(content))).toEqual({ sum: 5 });
          span.end();
          expect(spans.spans()[0]?.attributes).toMatchObject({ 'mcp.protocol.version': revision });
        } finally {
          await spans.dispose();
        }
        expect((await callOf(tools, 'picture')).content).toEqual([
          { type: 'text', text: 'A dot' },
          { type: 'image_url', image_url: { url: expect.stringMatching(/^data:image\/png;base64,/) } },
        ]);
        const updates: unknown[] = [];
        const progress = (update: unknown) => updates.push(update);
        expect(await callOf(tools, 'steps', { progress })).toMatchObject({ content: 'all steps' });
        expect(updates).toEqual(
          [1, 2, 3].map((step) => ({ type: 'mcp-progress', progress: step, total: 3, message: `step ${step}` })),
        );
        expect(await callOf(tools, 'fail')).toMatchObject({ success: false });
        const read = await callOf(tools, 'read_resource', { arguments: { uri: 'note://plants' } });
        expect(read.content).toContain('Water the plants.');
      },
    );

    it.each(protocols)('P-06 protocol "%s": the tool sees a cancel, and the server answers on', async (protocol) => {
      const tools = client({ protocol });
      const before = server.count('wait cancelled');
      const controller = new AbortController();
      const running = callOf(tools, 'wait', { signal: controller.signal, progress: () => controller.abort() });
      expect(await thrownBy(() => running)).toMatchObject({ code: 'CANCELED' });
      await eventually(() => server.count('wait cancelled') === before + 1);
      expect(await callOf(tools, 'steps')).toMatchObject({ content: 'all steps' });
    });

    it.each(protocols)('protocol "%s": asks the model that sampling names', async (protocol) => {
      const tools = client({ protocol, sampling: { provider: scriptedLLM([{ text: 'Otters.' }]) } });
      expect(await callOf(tools, 'sample')).toMatchObject({ content: 'The model says Otters.' });
    });

    it.each(protocols)(
      'P-02 protocol "%s": a process that is killed asks, and another one takes the answer',
      async (protocol) => {
        const before = server.count('ask is answered');
        const path = stores.path();
        const child = programs.start('asked-turn', JSON.stringify({ ...server.options, protocol }), path, 'it__ask');
        expect(await nextMessage(child)).toEqual(['input-required', undefined]);
        await kill(child);
        const provider = scriptedLLM([{ text: 'Done.' }]);
        const config = {
          agentId: 'assistant',
          llmProvider: provider,
          toolProviders: [client({ protocol })],
          taskStateStore: stores.open({ path }),
          leaseMs: 1_000,
        };
        const answers = { '1:0': { name: 'Ada' } };
        const resumed = AgentLoop.resume('t', config, { answers, onBusy: 'wait' });
        expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Done.' });
        expect(provider.calls[0]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'accept: Ada' });
        if (protocol === 'auto') expect(server.count('ask is answered')).toBe(before + 1);
      },
    );

    it.each(protocols)(
      'protocol "%s": a server that is killed in a call costs one error, and is used again',
      async (protocol) => {
        const tools = client({ protocol });
        await callOf(tools, 'steps');
        const killed = callOf(tools, 'wait', {
          progress: () => {
            const pid = server
              .ledger()
              .findLast((line) => line.startsWith('wait begins'))
              ?.split(' ')
              .at(-1);
            process.kill(Number(pid), 'SIGKILL');
          },
        });
        expect(await thrownBy(() => killed)).toMatchObject({
          code: 'TOOL_FAILED',
          message: expect.stringContaining('may or may not have taken effect'),
        });
        await server.start();
        expect(await callOf(tools, 'steps')).toMatchObject({ content: 'all steps' });
      },
    );
  });
}

describeReal(['mcp-python'], 'a server of 2026-07-28 that is restarted while a question waits', () => {
  const programs = new ChildPrograms('tests/mcp/children');
  const stores = new TemporaryStores();
  let server: PythonServer | undefined;
  let tools: McpTools | undefined;

  afterEach(async () => {
    await Promise.all([tools?.close(), server?.close()]);
  });
  afterAll(async () => {
    await Promise.all([programs.clear(), stores.clear()]);
  });

  it.each([
    ['takes the answer where its processes share a key', { STATE_KEY: 'k'.repeat(32) }, 1],
    ['starts the call anew with the answer where it cannot read the state of the process before', {}, 2],
  ])('P-02 %s', async (_, env: Readonly<Record<string, string>>, starts) => {
    server = new PythonServer(['mcp', 'http'], await freePort(), env);
    await server.start();
    const path = stores.path();
    const child = programs.start(
      'asked-turn',
      JSON.stringify({ ...server.options, protocol: 'auto' }),
      path,
      'it__ask',
    );
    expect(await nextMessage(child)).toEqual(['input-required', undefined]);
    await kill(child);
    await server.close();
    await server.start();
    tools = toolsOf(server, { protocol: 'auto' });
    const provider = scriptedLLM([{ text: 'Done.' }]);
    const config = { agentId: 'assistant', llmProvider: provider, toolProviders: [tools], leaseMs: 1_000 };
    const durable = { ...config, taskStateStore: stores.open({ path }) };
    const answers = { '1:0': { name: 'Ada' } };
    const resumed = AgentLoop.resume('t', durable, { answers, onBusy: 'wait' });
    expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Done.' });
    expect(provider.calls[0]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'accept: Ada' });
    expect(server.count('ask begins')).toBe(starts);
  });
});
