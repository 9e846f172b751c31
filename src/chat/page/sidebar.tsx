import { visibleText } from '../../ui/visible-text.ts';
import type { ListedChat } from './chat-list.ts';
import { Icon, IconButton } from './icons.tsx';

export interface SidebarProps {
  readonly chats: readonly ListedChat[];
  readonly current: string;
  readonly open: (id: string) => void;
  readonly create: () => void;
  readonly remove: (id: string) => void;
}

export function Sidebar({ chats, current, open, create, remove }: SidebarProps) {
  return (
    <nav class="sidebar" id="conversations" aria-label="Conversations">
      <button type="button" class="quiet new" onClick={create}>
        <Icon name="plus" />
        New conversation
      </button>
      <ul>
        {chats.map(({ id, title }) => (
          <li key={id} class={id === current ? 'current' : ''}>
            <button
              type="button"
              class="chat"
              aria-current={id === current ? 'page' : undefined}
              onClick={() => open(id)}
              title={visibleText(title)}
            >
              <bdi>{visibleText(title)}</bdi>
            </button>
            <IconButton
              class="icon-button remove"
              name="trash"
              label={`Remove ${visibleText(title)} from this list`}
              onClick={() => remove(id)}
            />
          </li>
        ))}
      </ul>
      {chats.length === 0 && <p class="note">Your conversations are listed here, in this browser.</p>}
    </nav>
  );
}
