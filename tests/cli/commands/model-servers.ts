import { afterEach } from '@jest/globals';
import { type ModelServer, type ModelServerOptions, startModelServer } from 'millrace/testing';

const servers: ModelServer[] = [];

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

/** A model server that is closed after the test. */
export async function modelServer(options: ModelServerOptions): Promise<ModelServer> {
  const server = await startModelServer(options);
  servers.push(server);
  return server;
}

/** The settings that lead to it. */
export function settingsOf(server: ModelServer): Readonly<Record<string, string>> {
  return { OPENAI_BASE_URL: server.baseUrl, OPENAI_MODEL: 'm' };
}
