"""VLM2Vec: a chat model that embeds, from the hidden state behind its prompt."""
