export { type ChatPageOptions, chatPage } from './chat-page.ts';
