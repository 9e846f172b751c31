import { useEffect, useMemo, useReducer } from 'preact/hooks';
import type { Api } from './api.ts';
import { Conversation } from './conversation.ts';
import { tabOutbox } from './outbox.ts';
import { isKnown } from './use-chats.ts';

const outbox = tabOutbox();

/** The conversation of an id, opened. What happens in a frame of the screen is shown once; what other tabs do in it is shown too. */
export function useConversation(id: string, api: Api): Conversation {
  const [, show] = useReducer((count: number, _: undefined) => count + 1, 0);
  const tabs = useMemo(() => new BroadcastChannel('millrace.chat'), []);
  const conversation = useMemo(() => {
    const drawing = { isPlanned: false };
    const onChange = () => {
      if (drawing.isPlanned) return;
      drawing.isPlanned = true;
      const draw = () => {
        drawing.isPlanned = false;
        show(undefined);
      };
      // A hidden tab has no frames.
      if (document.hidden) setTimeout(draw, 200);
      else requestAnimationFrame(draw);
    };
    return new Conversation({ id, api, outbox, onChange, onActivity: () => tabs.postMessage(id) });
  }, [id, api]);
  useEffect(() => {
    const onMessage = ({ data }: MessageEvent) => {
      if (data === id) void conversation.refresh();
    };
    tabs.addEventListener('message', onMessage);
    if (isKnown(id)) void conversation.open();
    else conversation.begin();
    return () => {
      tabs.removeEventListener('message', onMessage);
      conversation.leave();
    };
  }, [conversation]);
  return conversation;
}
