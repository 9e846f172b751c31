import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { PostgresMessageStore } from 'millrace/postgres';
import { says, user } from '../../agent/agent-bench.ts';
import { LoopbackProxy } from '../redis/loopback-proxy.ts';
import { describePostgres } from './describe-postgres.ts';
import { type PostgresProcess, startPostgres } from './postgres-process.ts';

/** Breaks a connection in place of the answer to a commit, as often as it is told to. */
class CommitProxy extends LoopbackProxy {
  left = 0;

  static start(targetPort: number): Promise<CommitProxy> {
    return new CommitProxy(targetPort).listen();
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  protected override join(client: Socket, server: Socket): void {
    client.on('data', (chunk) => server.write(chunk));
    server.on('data', (chunk) => {
      if (this.left === 0 || !chunk.includes('COMMIT')) return void client.write(chunk);
      this.left--;
      client.destroy();
    });
  }
}

describePostgres('a connection that breaks at a commit', () => {
  let postgres: PostgresProcess;
  let proxy: CommitProxy;
  let store: PostgresMessageStore;
  beforeAll(async () => {
    postgres = await startPostgres();
    proxy = await CommitProxy.start(postgres.port);
    store = new PostgresMessageStore({
      postgres: postgres.url.replace(`:${postgres.port}`, `:${proxy.port}`),
      migrate: true,
    });
    await store.append('c', 't', [user('Hello'), says('Hi')]);
  });
  afterAll(async () => {
    await store.close();
    await proxy.close();
    await postgres.remove();
  });

  it('does not fail what only reads', async () => {
    proxy.left = 1;
    expect((await store.load('c')).messages).toEqual([user('Hello'), says('Hi')]);
    expect(proxy.left).toBe(0);
  });

  it('leaves a change in doubt: the caller makes it again, and it is made once', async () => {
    proxy.left = 1;
    const again = () => store.append('c', 't2', [user('More')]);
    await expect(again()).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    expect(await again()).toEqual({ appended: false });
    expect((await store.load('c')).total).toBe(3);
  });
});
