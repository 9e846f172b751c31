import { chat } from '../../../../lib/chat';

export const GET = chat;
export const POST = chat;
