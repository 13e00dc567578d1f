"""A language model that answers questions from the patches of a frozen encoder, as LLaVA does."""
