import { expect, it } from '@jest/globals';
import { callOf, sdkServer, toolsOf } from './sdk-server.ts';

const said =
  "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.";

it.each([
  [
    'auto',
    `${said} The tool asks as revisions before 2026-07-28 do: set protocol: 'legacy' for this server in mcpTools.`,
  ],
  ['legacy', said],
] as const)(
  'R-38 a tool that asks as before 2026-07-28 fails with the cure where there is one: %s',
  async (protocol, error) => {
    const server = await sdkServer({ version: 'v2', way: 'stdio', env: { OLD_WAY: '1' } });
    const tools = toolsOf(server, { protocol });
    expect(await callOf(tools, 'ask_old_way')).toMatchObject({ success: false, error });
    await tools.close();
    await server.close();
  },
);
