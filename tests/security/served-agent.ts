import { afterAll, beforeAll } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { a2aServer } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';

/** An agent without an answer that all bindings reach while the tests of a suite run: what it is sent must not get that far. */
export function servedAgent(): { readonly store: InMemoryStateStore; readonly url: string } {
  const store = new InMemoryStateStore();
  const served = agent({ id: 'served', description: 'Answers.', provider: scriptedLLM([]), taskStateStore: store });
  let url = '';
  let close = async () => {};
  beforeAll(async () => {
    const server = await a2aServer({ agent: served, grpc: { port: 0 } });
    ({ url } = await server.listen({ port: 0 }));
    close = () => server.close();
  });
  afterAll(() => close());
  return {
    store,
    get url() {
      return url;
    },
  };
}
