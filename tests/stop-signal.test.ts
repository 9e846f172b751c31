import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';

/** A process whose work after the signal takes for ever, or is done at once. */
async function started(work: 'endless' | 'done') {
  const program = `
    import { stopSignal } from 'millrace';
    const kept = setInterval(() => {}, 1000);
    const stopping = stopSignal();
    stopping.addEventListener('abort', () => {
      console.log(stopping.reason, stopSignal() === stopping);
      if (${JSON.stringify(work)} === 'done') clearInterval(kept);
    });
    console.log('ready');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said: string[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const ended = once(child, 'close');
  await once(child.stdout, 'data');
  return { child, said, ended };
}

describe('stopSignal', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)(
    'R-43 is aborted by %s, and the process ends with 0 once nothing keeps it alive',
    async (name) => {
      const { child, said, ended } = await started('done');
      child.kill(name);
      expect(await ended).toEqual([0, null]);
      expect(said.join('')).toBe(`ready\nthe process received ${name} true\n`);
    },
  );

  it('R-43 a second signal ends the process at once, with the code of that signal', async () => {
    const { child, ended } = await started('endless');
    child.kill('SIGINT');
    await once(child.stdout, 'data');
    child.kill('SIGTERM');
    expect(await ended).toEqual([143, null]);
  });
});
