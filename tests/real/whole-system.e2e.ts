import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ModelServer, type ScriptStep, startModelServer } from 'millrace/testing';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { Command } from '../e2e/command.ts';
import { startOtlpReceiver } from '../otlp-receiver.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { type SeenSpan, startJaeger } from './jaeger.ts';
import { type LiteLLMProxy, startLiteLLM } from './litellm-proxy.ts';
import { describeReal } from './real-part.ts';

// Behind the one that the command sets.

const tools = fileURLToPath(new URL('../e2e/durable-tools.mjs', import.meta.url));
const email = 'ann@x.org';

/** Each span below its parent, as lines; spans without a parent in the trace are roots. */
function treeOf(spans: readonly SeenSpan[], parent?: string): readonly string[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  return spans
    .filter(({ parentSpanId = '' }) => (parent === undefined ? !ids.has(parentSpanId) : parentSpanId === parent))
    .flatMap(({ name, spanId }) => [name, ...treeOf(spans, spanId).map((line) => `  ${line}`)]);
}

/** The same whatever the order in which tools that ran side by side ended. */
const wholeTurn = [
  'agent.execute',
  '  iteration[1]',
  '    llm.call',
  '    tools.execute',
  '      tool[picky]',
  '      tool[quick]',
  '  iteration[2]',
  '    llm.call',
].sort();

describeReal(['litellm', 'redis'], 'the command line on LiteLLM and Redis', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let redis: RedisProcess;
  let vendor: ModelServer;
  let proxy: LiteLLMProxy;
  let port = 0;

  beforeAll(async () => {
    folder = temporaryFolder({});
    redis = await startRedis();
    vendor = await startModelServer();
    port = vendor.port;
    proxy = await startLiteLLM({ openaiBaseUrl: vendor.baseUrl, openaiKey: 'sk-of-the-vendor' });
  });
  afterAll(async () => {
    await proxy?.close();
    await vendor?.close();
    await redis?.remove();
    folder.remove();
  });

  const answers = async (script: readonly ScriptStep[]): Promise<void> => {
    await vendor.close();
    vendor = await startModelServer({ port, script });
  };
  const calls = (...names: readonly string[]): ScriptStep => ({
    text: 'Working.',
    toolCalls: names.map((name) => ({ name, arguments: { email } })),
  });
  const ledgerFile = () => join(folder.path, 'ledger');
  const ledger = () =>
    existsSync(ledgerFile()) ? readFileSync(ledgerFile(), 'utf8').trimEnd().split('\n').sort() : [];
  const start = (args: readonly string[], flags = ['--tools', tools, '--lease-ms', '500']): Command =>
    new Command([...args, ...flags, '--store', redis.url], {
      env: {
        OPENAI_BASE_URL: proxy.baseUrl,
        OPENAI_MODEL: 'openai/demo',
        OPENAI_API_KEY: proxy.masterKey,
        TEST_LEDGER: ledgerFile(),
      },
    });

  it('goes on in another process with a turn that was killed, does nothing twice, and links the traces', async () => {
    await answers([calls('quick', 'again'), { text: 'Done.' }]);
    const receiver = await startOtlpReceiver();
    try {
      const runner = start(['run', 'Invite them', '--task', 't', '--otlp', receiver.url]);
      await Promise.all(['✓ quick', '· again'].map((text) => runner.shows(text)));
      runner.child.kill('SIGKILL');
      await runner.ended;
      const resumed = start(['resume', 't', '--otlp', receiver.url]);
      const end = await resumed.ended;
      expect(end).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
      expect(ledger()).toEqual(['again t:1:1 1', 'again t:1:1 2', 'quick t:1:0 1']);
      expect(vendor.received).toBe(2);

      const runs = receiver.spans.filter(({ name }) => name === 'agent.execute');
      const [lost, ...otherLost] = runs.filter(({ attributes }) => attributes['millrace.restored'] === true);
      const [root, ...others] = runs.filter((span) => span !== lost);
      expect([otherLost, others]).toEqual([[], []]);
      expect(lost?.attributes['millrace.outcome']).toBe('lost');
      expect(root?.links).toMatchObject([{ traceId: lost?.traceId, spanId: lost?.spanId }]);
      for (const run of [lost, root]) {
        const trace = receiver.spans.filter(({ traceId }) => traceId === run?.traceId);
        expect(treeOf(trace).filter((line) => !line.startsWith(' '))).toHaveLength(1);
      }
      expect(root?.traceId).not.toBe(lost?.traceId);
    } finally {
      await receiver.close();
    }
  });

  it('exports one tree a turn', async () => {
    await answers([calls('quick', 'picky'), { text: 'Done.' }]);
    const receiver = await startOtlpReceiver();
    try {
      const end = await start(['run', 'Invite them', '--task', 'asked', '--otlp', receiver.url]).ended;
      expect(end.exitCode).toBe(3);
      const traces = new Set(receiver.spans.map(({ traceId }) => traceId));
      expect(traces.size).toBe(1);
      expect(treeOf(receiver.spans)[0]).toBe('agent.turn');
    } finally {
      await receiver.close();
    }
  });

  describeReal(['jaeger'], 'and Jaeger', () => {
    it('finds the turn as one tree', async () => {
      const jaeger = await startJaeger();
      try {
        await answers([
          { toolCalls: ['quick', 'picky'].map((name) => ({ name, arguments: { email: 'ann@x.com' } })) },
          { text: 'Done.' },
        ]);
        const end = await start(['run', 'Invite them', '--task', 'seen', '--otlp', jaeger.otlpUrl]).ended;
        expect(end.exitCode).toBe(0);
        const { stdout: journal } = await start(['export', 'seen'], []).ended;
        const traceId = /"traceId":"([0-9a-f]{32})"/.exec(journal)?.[1] ?? '';
        const spans = await jaeger.trace(traceId, wholeTurn.length);
        expect([...treeOf(spans)].sort()).toEqual(wholeTurn);
      } finally {
        await jaeger.close();
      }
    });
  });
});
