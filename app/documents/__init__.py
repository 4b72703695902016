"""Read documents as text with page marks: PDF, office files and web pages."""
