import type { ServerRoute } from '../a2a/index.ts';

/** Where the page is. */
export const pagePath = '/chat';

/** What `/v1` shows of tool calls. */
export const toolViews = ['full', 'names', 'hidden'] as const;

interface ServedRoutes {
  readonly openai: boolean;
  readonly page: boolean;
  readonly tools: (typeof toolViews)[number] | undefined;
}

/** What a server has beside A2A. `recoverEveryMs`: how often turns that nobody runs are looked for. */
export async function servedRoutes(
  { openai, page, tools }: ServedRoutes,
  recoverEveryMs: number,
): Promise<readonly ServerRoute[]> {
  const ofOpenAI = openai ? [await openAIRoute(tools, recoverEveryMs)] : [];
  return [...(page ? [await pageRoute(recoverEveryMs)] : []), ...ofOpenAI];
}

async function openAIRoute(tools: ServedRoutes['tools'], recoverEveryMs: number): Promise<ServerRoute> {
  const { openAIHandler } = await import('../ui/openai/index.ts');
  return {
    path: '/v1',
    handlerOf: ({ agent, ...callers }) => openAIHandler({ ...callers, agents: [agent], tools, recoverEveryMs }),
  };
}

/**
 * The chat page and its API, for whoever reaches the server: all of its chats are one owner's, and what tools are given and give is shown.
 */
async function pageRoute(recoverEveryMs: number): Promise<ServerRoute> {
  const [{ chatPage }, { uiMessageHandler }] = await Promise.all([
    import('../chat/index.ts'),
    import('../ui/index.ts'),
  ]);
  return {
    path: pagePath,
    handlerOf(served) {
      const api = `${pagePath}/api`;
      const page = chatPage({ api, title: served.agent.name });
      // Also with a store in memory a turn continues without its client: the process stays.
      const shown = { tools: 'full', reasoning: true, onDisconnect: 'continue', recoverEveryMs } as const;
      const handler = uiMessageHandler({ ...served, ...shown });
      const answer = async (request: Request): Promise<Response> => {
        const { pathname } = new URL(request.url);
        if (/^\/chat\/?$/.test(pathname)) return page(request);
        if (pathname === api || pathname.startsWith(`${api}/`)) return handler(request);
        return Response.json({ error: 'There is nothing here.' }, { status: 404 });
      };
      return Object.assign(answer, { start: () => handler.start(), close: () => handler.close() });
    },
  };
}
