// Appends until its files may not grow any more (`ulimit -f`, set by restarting itself in a shell), and says what happened.
import { execFileSync } from 'node:child_process';
import { AgentLoopError } from 'millrace';
import { noteRecord as note, startRecord } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';

const [path = '', isLimited] = process.argv.slice(2);

function codeOf(error: unknown): unknown {
  return AgentLoopError.isInstance(error) ? error.code : String(error);
}

async function fill(): Promise<object> {
  // Without this a write beyond the limit ends the process.
  process.on('SIGXFSZ', () => {});
  const store = new LmdbStateStore({ path });
  await store.create('t', startRecord('t'));
  await store.create('other', startRecord('other'));
  const lease = await store.acquire('t', 'owner', 60_000);
  const other = await store.acquire('other', 'owner', 60_000);
  const append = (to: typeof lease, seq: number, size: number) => {
    const record = { ...note('x'.repeat(size)), seq, epoch: to.epoch, at: 0 };
    return store.append(to, [record], { status: 'working', barrier: true });
  };
  for (let seq = 2; ; seq++) {
    const both = [append(lease, seq, 200_000), append(other, seq, 10)];
    const [mine, theirs] = await Promise.allSettled(both);
    if (mine?.status !== 'rejected') continue;
    const small = await append(lease, seq, 10).then(() => 'written', codeOf);
    await store.close();
    const { reason } = mine;
    const retryable = AgentLoopError.isInstance(reason) && reason.retryable;
    return {
      code: codeOf(reason),
      retryable,
      other: theirs?.status === 'rejected' && codeOf(theirs.reason),
      small,
      kept: seq - 1,
    };
  }
}

if (isLimited) {
  console.log(JSON.stringify(await fill()));
} else {
  const command = `ulimit -f 4000; exec "$0" "$1" "$2" limited 2>/dev/null`;
  const printed = execFileSync('/bin/bash', ['-c', command, process.execPath, process.argv[1] ?? '', path], {
    encoding: 'utf8',
  });
  process.send?.(JSON.parse(printed));
  process.disconnect();
}
