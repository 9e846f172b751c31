import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { Command } from './command.ts';

const tools = fileURLToPath(new URL('durable-tools.mjs', import.meta.url));
const password = 'hush-hush';

describeRedis('the command line on Redis', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let ledgerFile: string;
  let redis: RedisProcess;
  let where: readonly string[];

  beforeAll(async () => {
    folder = temporaryFolder({});
    ledgerFile = join(folder.path, 'ledger');
    redis = await startRedis({ config: ['appendonly yes', 'save ""', `requirepass ${password}`] });
    where = ['--store', `redis://:${password}@127.0.0.1:${redis.port}`];
  });
  afterAll(async () => {
    await redis?.remove();
    folder.remove();
  });

  const ledger = () => (existsSync(ledgerFile) ? readFileSync(ledgerFile, 'utf8').trimEnd().split('\n').sort() : []);

  const start = (args: readonly string[], env: Readonly<Record<string, string>>) =>
    new Command([...args, '--tools', tools, '--lease-ms', '300', ...where], {
      env: { ...env, TEST_LEDGER: ledgerFile },
    });

  async function free(): Promise<void> {
    for (;;) {
      const { stdout } = await runInProcess(['tasks', '--json', ...where]);
      if (!stdout.includes('"held":true')) return;
    }
  }

  it('goes on with a turn whose process was killed, and whose Redis was too', async () => {
    const toolCalls = ['quick', 'again'].map((name) => ({ name, arguments: { email: 'ann@x.org' } }));
    const server = await modelServer({ script: [{ text: 'Working.', toolCalls }, { text: 'Done.' }] });
    const env = settingsOf(server);
    const runner = start(['run', 'Invite them', '--task', 't'], env);
    await Promise.all(['✓ quick', '· again'].map((text) => runner.shows(text)));
    runner.child.kill('SIGKILL');
    await runner.ended;
    await redis.end('SIGKILL');
    await redis.start();
    await free();

    const listed = await runInProcess(['tasks', '--state', 'resumable', ...where]);
    expect(listed.stdout).toMatch(
      /^TASK .*\nt +resumable +\S+ \S+ +Invite them\n +waits: no process runs it; its last one shut down or was lost\n$/,
    );
    const shown = await runInProcess(['show', 't', ...where]);
    expect(shown.stdout).toMatch(/ ✓ quick +ann@x.org → quick ann@x.org {2}\d+ ms\n/);
    expect(shown.stdout).toContain(
      `  millrace resume t --tools ${tools} --store redis://:PASSWORD@127.0.0.1:${redis.port}\n`,
    );

    const end = await start(['resume', 't'], env).ended;
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Working.\n\nDone.\n' });
    expect(end.stderr).toContain('· again ann@x.org, attempt 2\n');
    expect(ledger()).toEqual(['again t:1:1 1', 'again t:1:1 2', 'quick t:1:0 1']);
    expect((await runInProcess(['show', 't', ...where])).stdout).toMatch(/\ncompleted · 2 iterations · /);
    const said = [runner.shown, listed.stderr, shown.stdout, shown.stderr, end.stdout, end.stderr].join('');
    expect(said).not.toContain(password);
  });

  it('a task that is not there is one sentence, which names the store without its password', async () => {
    const end = await runInProcess(['show', 'nope', ...where]);
    expect(end).toMatchObject({ exitCode: 1, stdout: '' });
    const place = `redis://127.0.0.1:${redis.port}`;
    expect(end.stderr).toContain(
      `there is no task "nope" in Redis at ${place}; "millrace tasks --store redis://:PASSWORD@`,
    );
    expect(end.stderr).not.toContain(password);
  });
});
