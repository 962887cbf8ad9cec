"""Static ids for pods of a Deployment, which have no name that comes back: slots, which pass from pod to pod."""
