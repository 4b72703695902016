// What the components of the page find as `window.Foretoken`.

import { brand } from "./brand.js";
import { ChatPage } from "./chat.js";
import { ModelsPage } from "./models.js";
import { RacePage } from "./race.js";
import { ServerPage } from "./server.js";
import { status } from "./status.js";
import { TrainPage } from "./train.js";

window.Foretoken = {
  chat: (component) => new ChatPage(component),
  race: (component) => new RacePage(component),
  models: (component) => new ModelsPage(component),
  train: (component) => new TrainPage(component),
  server: (component) => new ServerPage(component),
  refresh: () => status.refresh(),
};
brand();
